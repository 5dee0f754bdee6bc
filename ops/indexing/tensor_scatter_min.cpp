// TensorScatterMin: y = x, then y[indices[i..., 0], ..., indices[i..., k - 1], :] = min(that slice,
// updates[i..., :]); NaN if either is NaN.
//   x, y: any shape   indices: [i..., k], i32 or i64, each within its dimension of x
//   updates: [i..., sizes of x from dimension k on]
#include "ops/indexing/scatter_nd.hpp"

namespace troupe {

Op tensor_scatter_min_op() {
  return tensor_scatter_op<Minimum, float, double, int32_t, int64_t, uint8_t>(
      "TensorScatterMin", extreme_scatter_gradient);
}

Output tensor_scatter_min(Output x, Output indices, Output updates, Origin at) {
  return add_node({.op = "TensorScatterMin", .inputs = {x, indices, updates}}, at);
}

}  // namespace troupe
