// Scatters into a tensor: y = x, then each slice y[indices[i..., 0], ..., indices[i..., k - 1], :]
// is joined with updates[i..., :], in the order of the indices.
//   x, y: any shape   indices: [i..., k], i32 or i64, each within its dimension of x
//   updates: [i..., sizes of x from dimension k on]
#include "ops/gradients.hpp"
#include "ops/indexing/scatter_nd.hpp"

namespace troupe {
namespace {

struct Subtract {
  template <class T>
  static T apply(T old, T update) {
    return static_cast<T>(wrapping<T>(old) - wrapping<T>(update));
  }
};

struct Replace {
  template <class T>
  static T apply(T, T update) {
    return update;
  }
};

// Writing dy for dL/dy:  dx = dy;  dupdates = the slices of dy at the indices.
std::vector<Output> add_gradient(const GradientContext& ctx) {
  const Output dy = ctx.output_gradient(0);
  return {dy, Output{}, gradient_of_updates(ctx, dy)};
}

// dx = dy;  dupdates = minus the slices of dy at the indices.
std::vector<Output> subtract_gradient(const GradientContext& ctx) {
  const Output dy = ctx.output_gradient(0);
  return {dy, Output{}, negate(gradient_of_updates(ctx, dy))};
}

// All elements equal to y share dy.
std::vector<Output> extreme_gradient(const GradientContext& ctx) {
  const Output x = ctx.input(0), indices = ctx.input(1), updates = ctx.input(2);
  const Output y = ctx.output(0), dy = ctx.output_gradient(0);
  const Output one = constant_like(1, y), zero = constant_like(0, y);
  const Output in_x = where(equal(x, y), one, zero);
  const Output in_updates = where(equal(updates, gradient_of_updates(ctx, y)), one, zero);
  const Output share = dy / tensor_scatter_add(in_x, indices, in_updates);
  return {share * in_x, Output{}, gradient_of_updates(ctx, share) * in_updates};
}

// dx = dy, but 0 at replaced slices;  dupdates = the slices of dy at the indices, but 0 for updates
// that a later one replaced.
std::vector<Output> update_gradient(const GradientContext& ctx) {
  const Output indices = ctx.input(1), updates = ctx.input(2), dy = ctx.output_gradient(0);
  return {tensor_scatter_update(dy, indices, zeros_like(updates)), Output{},
          tensor_scatter_update_gradient(dy, indices, updates)};
}

template <class F, class... Ts>
Op row(const char* name, decltype(Op::gradient) gradient) {
  return tensor_scatter_op<F, float, double, int32_t, int64_t, uint8_t, Ts...>(name, gradient);
}

Output scatter_node(const char* op, Output x, Output indices, Output updates, Origin at) {
  return add_node({.op = op, .inputs = {x, indices, updates}}, at);
}

}  // namespace

std::vector<Op> tensor_scatter_ops() {
  return {
      // the slice += its update
      row<Add>("TensorScatterAdd", add_gradient),
      // the slice -= its update
      row<Subtract>("TensorScatterSub", subtract_gradient),
      // the slice = max(that slice, its update); NaN if either is NaN
      row<Maximum>("TensorScatterMax", extreme_gradient),
      // the slice = min(that slice, its update); NaN if either is NaN
      row<Minimum>("TensorScatterMin", extreme_gradient),
      // the slice = its update; if indices are equal, the last one's
      row<Replace, bool>("TensorScatterUpdate", update_gradient),
  };
}

Output tensor_scatter_add(Output x, Output indices, Output updates, Origin at) {
  return scatter_node("TensorScatterAdd", x, indices, updates, at);
}
Output tensor_scatter_sub(Output x, Output indices, Output updates, Origin at) {
  return scatter_node("TensorScatterSub", x, indices, updates, at);
}
Output tensor_scatter_max(Output x, Output indices, Output updates, Origin at) {
  return scatter_node("TensorScatterMax", x, indices, updates, at);
}
Output tensor_scatter_min(Output x, Output indices, Output updates, Origin at) {
  return scatter_node("TensorScatterMin", x, indices, updates, at);
}
Output tensor_scatter_update(Output x, Output indices, Output updates, Origin at) {
  return scatter_node("TensorScatterUpdate", x, indices, updates, at);
}

}  // namespace troupe
