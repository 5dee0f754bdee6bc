// TensorScatterMax: y = x, then y[indices[i..., 0], ..., indices[i..., k - 1], :] = max(that slice,
// updates[i..., :]); NaN if either is NaN.
//   x, y: any shape   indices: [i..., k], i32 or i64, each within its dimension of x
//   updates: [i..., sizes of x from dimension k on]
#include "ops/indexing/scatter_nd.hpp"

namespace troupe {

std::vector<Output> extreme_scatter_gradient(const GradientContext& ctx) {
  const Output x = ctx.input(0), indices = ctx.input(1), updates = ctx.input(2);
  const Output y = ctx.output(0), dy = ctx.output_gradient(0);
  const Output one = constant_like(1, y), zero = constant_like(0, y);
  const Output in_x = where(equal(x, y), one, zero);
  const Output in_updates = where(equal(updates, gradient_of_updates(ctx, y)), one, zero);
  const Output share = dy / tensor_scatter_add(in_x, indices, in_updates);
  return {share * in_x, Output{}, gradient_of_updates(ctx, share) * in_updates};
}

Op tensor_scatter_max_op() {
  return tensor_scatter_op<Maximum, float, double, int32_t, int64_t, uint8_t>(
      "TensorScatterMax", extreme_scatter_gradient);
}

Output tensor_scatter_max(Output x, Output indices, Output updates, Origin at) {
  return add_node({.op = "TensorScatterMax", .inputs = {x, indices, updates}}, at);
}

}  // namespace troupe
