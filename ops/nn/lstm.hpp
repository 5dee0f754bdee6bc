// What Lstm and LstmGradient share: the node of the gradient.
#pragma once

#include "ops/nn/recurrent.hpp"
#include "troupe/ops/sequences.hpp"

namespace troupe {

// Of one Lstm node: what comes back to its y, h and c, what it has saved, and its inputs.
struct LstmBackward {
  Output dy, dh, dc, gates, cells, y, h0, c0, w_h, lengths;
  bool reverse = false;
};
struct LstmGradients {
  Output dprojected;  // [time, batch, 4h]: of x * w_x, and of the sum of both products and the bias
  Output dh0, dc0;    // [batch, h]
  Output h_before;    // [time, batch, h]: h as each step has found it
};
LstmGradients lstm_gradient(const LstmBackward& of);

}  // namespace troupe
