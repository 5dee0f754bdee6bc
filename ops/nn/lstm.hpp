// Shared by Lstm and LstmGradient: the gradient's node.
#pragma once

#include "ops/nn/recurrent.hpp"
#include "troupe/ops/networks.hpp"

namespace troupe {

// One Lstm node for its gradient: the gradients of y, h and c, the saved values, and the inputs.
struct LstmBackward {
  Output dy, dh, dc, gates, cells, y, h0, c0, w_h, lengths;
  bool reverse = false;
};
struct LstmGradients {
  Output dprojected;  // [time, batch, 4h]: gradient of x * w_x, and of both products plus bias
  Output dh0, dc0;    // [batch, h]
  Output h_before;    // [time, batch, h]: h before each time step
};
LstmGradients lstm_gradient(const LstmBackward& of);

}  // namespace troupe
