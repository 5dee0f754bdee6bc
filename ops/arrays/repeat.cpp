// Repeat: y = x with each of its slices along an axis repeated `count` times.
//   x: [..., n, ...]   y: [..., n * count, ...], y[..., i, ...] = x[..., i / count, ...]
//
// RepeatGradient: dx = the sums of each `count` consecutive slices along an axis.
//   dy: x_like repeated   x_like: only its shape is read   dx: the shape of x_like.
#include "ops/gradients.hpp"
#include "ops/reductions/reduce.hpp"
#include "ops/support/axes.hpp"
#include "ops/support/node.hpp"
#include "ops/support/repeats.hpp"
#include "ops/support/rows.hpp"
#include "troupe/ops.hpp"

namespace troupe {
namespace {

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  Shape y = ctx.input(0);
  const int axis = checked_axis(ctx, ctx.attr<int64_t>("axis"), y.ndim());
  y.set(axis, repeated_size(ctx, y[axis], ctx.attr<int64_t>("count")));
  return {y};
}

// Writing dy for dL/dy:  dx = the sum of the repetitions of each slice.
std::vector<Output> gradient(const GradientContext& ctx) {
  return {repeat_gradient(ctx.output_gradient(0), ctx.input(0), ctx.attr<int64_t>("count"),
                          ctx.attr<int64_t>("axis"))};
}

void cpu(KernelContext& ctx) {
  const Tensor& x = ctx.input(0);
  const int64_t count = ctx.attr<int64_t>("count");
  if (count == 1) return ctx.set_output(0, x);
  Tensor& y = ctx.output();
  if (y.size() == 0) return;
  const int axis = checked_axis(ctx, ctx.attr<int64_t>("axis"), x.ndim());
  const int64_t row = size_between(x.shape(), axis + 1, x.ndim());
  int64_t from = 0, copies = 0;
  const auto next = [&](int64_t) {
    if (copies == count) ++from, copies = 0;
    ++copies;
    return from;
  };
  copy_rows(y.size() / row, row * size_of(x.dtype()), x.raw(), y.mutable_raw(), next, same_row);
}

// Returns the axis. Throws: Error if dy does not have the shape of the repeated x.
template <class Context>
int checked_repeat(const Context& ctx, const Shape& dy, const Shape& x) {
  const int axis = checked_axis(ctx, ctx.template attr<int64_t>("axis"), x.ndim());
  const int64_t count = ctx.template attr<int64_t>("count");
  Shape wanted = x;
  wanted.set(axis, repeated_size(ctx, x[axis], count));
  if (!may_equal(dy, wanted))
    throw ctx.error("wants dy of shape ", wanted, ", ", x, " repeated ", count,
                    " times along axis ", axis, ", got ", dy);
  return axis;
}

std::vector<Shape> infer_gradient_shapes(const InferContext& ctx) {
  require_kernel(ctx, ctx.dtype(0));
  checked_repeat(ctx, ctx.input(0), ctx.input(1));
  return {ctx.input(1)};
}

// Writing g for the gradient of dx, the gradient of dy is g repeated.
std::vector<Output> gradient_of_gradient(const GradientContext& ctx) {
  return {repeat(ctx.output_gradient(0), ctx.attr<int64_t>("count"), ctx.attr<int64_t>("axis")),
          Output{}};
}

void cpu_gradient(KernelContext& ctx) {
  const Tensor& dy = ctx.input(0);
  const Shape x = ctx.input(1).shape();
  const int axis = checked_repeat(ctx, dy.shape(), x);
  Tensor& dx = ctx.output(0, x);
  if (dx.size() == 0) return;
  ReduceView view;
  view.outer = size_between(x, 0, axis + 1);
  view.reduced = ctx.attr<int64_t>("count");
  view.inner = size_between(x, axis + 1, x.ndim());
  view.x = dy.raw();
  reduce_elements(ctx, sum_reduction(dx.dtype()), view, dx.mutable_raw());
}

}  // namespace

Op repeat_op() {
  return {.name = "Repeat",
          .inputs = {"x"},
          .outputs = {"y"},
          .attrs = {{"count", AttrKind::integer}, {"axis", AttrKind::integer}},
          .infer_shapes = infer_shapes,
          .gradient = gradient,
          .kernels = {{DeviceKind::cpu, DType::none, cpu}}};
}

Output repeat(Output x, int64_t count, int64_t axis, Origin at) {
  return add_node({.op = "Repeat", .inputs = {x}, .attrs = {{"count", count}, {"axis", axis}}}, at);
}

Op repeat_gradient_op() {
  return {.name = "RepeatGradient",
          .inputs = {"dy", "x_like"},
          .outputs = {"dx"},
          .attrs = {{"count", AttrKind::integer}, {"axis", AttrKind::integer}},
          .infer_shapes = infer_gradient_shapes,
          .gradient = gradient_of_gradient,
          .kernels = float_kernels(cpu_gradient, cpu_gradient)};
}

Output repeat_gradient(Output dy, Output x_like, int64_t count, int64_t axis, Origin at) {
  return add_node(
      {.op = "RepeatGradient", .inputs = {dy, x_like}, .attrs = {{"count", count}, {"axis", axis}}},
      at);
}

}  // namespace troupe
