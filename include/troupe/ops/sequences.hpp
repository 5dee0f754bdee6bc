// Layers over sequences: recurrent ones and attention. The conventions of troupe/ops.hpp hold for
// these functions. For floats, except lengths and masks. Sequences are [time, batch, ...]. Each row
// of a batch has all time steps or, with `lengths` [batch], i32 or i64 in [0, time], the first
// ones; later steps are not read, and results are 0 there. With `reverse`, rows are read from their
// last step to their first one; results stay in place.
#pragma once

#include <optional>

#include "troupe/graph.hpp"

namespace troupe {

// ---- long short-term memory ----
//   i = sigmoid(x w_xi + h w_hi + b_i)      g = tanh(x w_xg + h w_hg + b_g)
//   f = sigmoid(x w_xf + h w_hf + b_f + forget_bias)     o = sigmoid(x w_xo + h w_ho + b_o)
//   c' = f * c + i * g                      h' = o * tanh(c')
// (Hochreiter and Schmidhuber 1997; forget gate of Gers et al. 2000). Weights and bias concatenate
// the gates i, f, g, o: w_x [n, 4h], w_h [h, 4h], bias [4h].

struct LstmOptions {
  Output lengths = {};     // undefined: all time steps
  double forget_bias = 0;  // Jozefowicz et al. 2015 begin with 1
  bool reverse = false;
};
struct Lstm {
  Output y;     // [time, batch, h], h' of each step
  Output h, c;  // [batch, h], after the last step of each row; h0 and c0 for a row of length 0
};
// x [time, batch, n], h0 and c0 [batch, h].
Lstm lstm(Output x, Output h0, Output c0, Output w_x, Output w_h, Output bias,
          LstmOptions options = {}, Origin at = Origin::here());
// One step: x [batch, n], h and c [batch, h].
struct LstmCell {
  Output h, c;
};
LstmCell lstm_cell(Output x, Output h, Output c, Output w_x, Output w_h, Output bias,
                   double forget_bias = 0, Origin at = Origin::here());

// ---- gated recurrent unit ----
//   r = sigmoid(x w_xr + b_r + h w_hr + d_r)      z = sigmoid(x w_xz + b_z + h w_hz + d_z)
//   n = tanh(x w_xn + b_n + r * (h w_hn + d_n))   with reset_after, as cuDNN, Keras, and ONNX's
//                                                 linear_before_reset
//   n = tanh(x w_xn + b_n + (r * h) w_hn + d_n)   without (Cho et al. 2014)
//   h' = (1 - z) * n + z * h
// Weights and biases concatenate r, z, n: w_x [n, 3h], w_h [h, 3h], bias b and recurrent_bias d
// [3h].

struct GruOptions {
  Output lengths = {};  // undefined: all time steps
  bool reset_after = true;
  bool reverse = false;
};
struct Gru {
  Output y;  // [time, batch, h], h' of each step
  Output h;  // [batch, h], after the last step of each row; h0 for a row of length 0
};
// x [time, batch, n], h0 [batch, h].
Gru gru(Output x, Output h0, Output w_x, Output w_h, Output bias, Output recurrent_bias,
        GruOptions options = {}, Origin at = Origin::here());
// One step: x [batch, n], h [batch, h] -> [batch, h].
Output gru_cell(Output x, Output h, Output w_x, Output w_h, Output bias, Output recurrent_bias,
                bool reset_after = true, Origin at = Origin::here());

// ---- attention ----

struct AttentionOptions {
  // Broadcast to [batch, heads, queries, keys]: bool, true where a query sees a key, or floats that
  // are added to the scores. Undefined: all are seen.
  Output mask = {};
  bool causal = false;               // query i sees keys 0 to i
  std::optional<double> scale = {};  // of the products; left out: 1 / sqrt(d)
  double dropout = 0;                // of the weights, as in dropout()
  int64_t seed = 0;                  // of the dropout
};
// softmax(scale * q k^T + mask) v over the keys (Vaswani et al. 2017): q [batch, heads, queries,
// d], k [batch, heads, keys, d], v [batch, heads, keys, dv] -> [batch, heads, queries, dv]. Zeros
// for a query that sees no key. With dropout, for second derivatives, and for the gradient of a
// mask, the scores of all queries are in memory at once; otherwise those of a few.
Output scaled_dot_product_attention(Output q, Output k, Output v, AttentionOptions options = {},
                                    Origin at = Origin::here());

}  // namespace troupe
