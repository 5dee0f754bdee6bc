// TensorScatterUpdate: y = x, then y[indices[i..., 0], ..., indices[i..., k - 1], :] =
// updates[i..., :]. If indices are equal, the last one's update stays.
//   x, y: any shape   indices: [i..., k], i32 or i64, each within its dimension of x
//   updates: [i..., sizes of x from dimension k on]
#include "ops/indexing/scatter_nd.hpp"

namespace troupe {
namespace {

struct Replace {
  template <class T>
  static T apply(T, T update) {
    return update;
  }
};

// Writing dy for dL/dy:  dx = dy, but 0 at replaced slices;  dupdates = the slices of dy at the
// indices, but 0 for updates that a later one replaced.
std::vector<Output> gradient(const GradientContext& ctx) {
  const Output indices = ctx.input(1), updates = ctx.input(2), dy = ctx.output_gradient(0);
  return {tensor_scatter_update(dy, indices, zeros_like(updates)), Output{},
          tensor_scatter_update_gradient(dy, indices, updates)};
}

}  // namespace

Op tensor_scatter_update_op() {
  return tensor_scatter_op<Replace, float, double, int32_t, int64_t, uint8_t, bool>(
      "TensorScatterUpdate", gradient);
}

Output tensor_scatter_update(Output x, Output indices, Output updates, Origin at) {
  return add_node({.op = "TensorScatterUpdate", .inputs = {x, indices, updates}}, at);
}

}  // namespace troupe
