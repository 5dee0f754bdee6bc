// TensorScatterSub: y = x, then y[indices[i..., 0], ..., indices[i..., k - 1], :] -= updates[i...,
// :], in the order of the indices.
//   x, y: any shape   indices: [i..., k], i32 or i64, each within its dimension of x
//   updates: [i..., sizes of x from dimension k on]
#include "ops/indexing/scatter_nd.hpp"

namespace troupe {
namespace {

struct Subtract {
  template <class T>
  static T apply(T old, T update) {
    return static_cast<T>(wrapping<T>(old) - wrapping<T>(update));
  }
};

// Writing dy for dL/dy:  dx = dy;  dupdates = minus the slices of dy at the indices.
std::vector<Output> gradient(const GradientContext& ctx) {
  const Output dy = ctx.output_gradient(0);
  return {dy, Output{}, negate(gradient_of_updates(ctx, dy))};
}

}  // namespace

Op tensor_scatter_sub_op() {
  return tensor_scatter_op<Subtract, float, double, int32_t, int64_t, uint8_t>("TensorScatterSub",
                                                                               gradient);
}

Output tensor_scatter_sub(Output x, Output indices, Output updates, Origin at) {
  return add_node({.op = "TensorScatterSub", .inputs = {x, indices, updates}}, at);
}

}  // namespace troupe
