// Repeat: y = x with each of its slices along an axis repeated `count` times.
//   x: [..., n, ...]   y: [..., n * count, ...], y[..., i, ...] = x[..., i / count, ...]
#include "ops/gradients.hpp"
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

}  // namespace troupe
