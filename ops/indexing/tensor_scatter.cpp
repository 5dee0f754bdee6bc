// Scatters into a tensor: y = x, then each slice y[indices[i..., 0], ..., indices[i..., k - 1], :]
// is joined with updates[i..., :], in the order of the indices.
//   x, y: any shape   indices: [i..., k], i32 or i64, each within its dimension of x
//   updates: [i..., sizes of x from dimension k on]
//
// TensorScatterUpdateGradient: dupdates[i..., :] = dy[indices[i..., 0], ..., indices[i..., k - 1],
// :], but 0 if a later index is equal, because its update replaced this one.
//   dy: any shape   indices: [i..., k], i32 or i64, each within its dimension of dy
//   updates_like: only its shape is read   dupdates: the shape of updates_like.
#include <cstring>

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

std::vector<Shape> infer_gradient_shapes(const InferContext& ctx) {
  check_updates(ctx, ctx.input(0), ctx.input(1), ctx.input(2));
  return {ctx.input(2)};
}

// Linear in dy. Writing g for the gradient of dupdates, the gradient of dy is zeros with the slices
// replaced by g.
std::vector<Output> gradient_of_gradient(const GradientContext& ctx) {
  return {tensor_scatter_update(zeros_like(ctx.input(0)), ctx.input(1), ctx.output_gradient(0)),
          Output{}, Output{}};
}

// Goes backwards from the last index, so that the first one seen of equal indices counts.
void cpu_gradient(KernelContext& ctx) {
  check_actual_shapes(ctx);
  const Tensor &dy = ctx.input(0), &indices = ctx.input(1);
  const Shape shape = dy.shape(), updates = ctx.input(2).shape();
  const Slices slices =
      named_slices(ctx, indices, shape, coordinates_of(shape, indices.shape(), updates));
  Tensor& output = ctx.output(0, updates);
  if (output.size() == 0) return;
  Tensor seen = ctx.scratch(DType::u8, Shape{dy.size() / slices.width});
  uint8_t* marks = seen.mutable_data<uint8_t>();
  std::memset(marks, 0, static_cast<size_t>(seen.size()));
  const auto bytes = static_cast<size_t>(slices.width * size_of(dy.dtype()));
  const char* from = static_cast<const char*>(dy.raw());
  char* to = static_cast<char*>(output.mutable_raw()) + output.byte_size();
  for (int64_t i = slices.count - 1; i >= 0; --i) {
    const int64_t number = slices.data()[i];
    to -= bytes;
    if (std::exchange(marks[number], uint8_t{1}))
      std::memset(to, 0, bytes);
    else
      std::memcpy(to, from + static_cast<size_t>(number) * bytes, bytes);
  }
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
      // the slices at the indices, for the gradient of the last one
      {.name = "TensorScatterUpdateGradient",
       .inputs = {"dy", "indices", "updates_like"},
       .outputs = {"dupdates"},
       .infer_dtypes = infer_dtype_around_indices,
       .infer_shapes = infer_gradient_shapes,
       .gradient = gradient_of_gradient,
       .kernels = {{DeviceKind::cpu, DType::none, cpu_gradient}}},
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

Output tensor_scatter_update_gradient(Output dy, Output indices, Output updates_like, Origin at) {
  return add_node({.op = "TensorScatterUpdateGradient", .inputs = {dy, indices, updates_like}}, at);
}

}  // namespace troupe
