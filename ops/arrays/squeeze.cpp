// Squeeze: x without some of its dimensions of size 1. No copy.
//   axes: the dimensions to drop, negative ones counted from the end; {}: all of size 1, and then
//   the sizes of x must be known while building.
#include "ops/support/axes.hpp"
#include "ops/support/node.hpp"
#include "troupe/ops.hpp"

namespace troupe {
namespace {

template <class Context>
uint32_t left_out(const Context& ctx, const Shape& x) {
  const auto& axes = ctx.template attr<std::vector<int64_t>>("axes");
  if (!axes.empty()) return checked_axes(ctx, axes, x.ndim());
  if (!x.is_known())
    throw ctx.error("cannot see which sizes of ", x, " are 1; name the axes to leave out");
  uint32_t set = 0;
  for (int d = 0; d < x.ndim(); ++d) set |= uint32_t{x[d] == 1} << d;
  return set;
}

template <class Context>
Shape squeezed(const Context& ctx, const Shape& x) {
  const uint32_t axes = left_out(ctx, x);
  std::vector<int64_t> sizes;
  for (int d = 0; d < x.ndim(); ++d) {
    if (!(axes >> d & 1))
      sizes.push_back(x[d]);
    else if (!may_equal(x[d], 1))
      throw ctx.error("cannot leave out axis ", d, " of ", x, ", which has size ", x[d],
                      "; name axes of size 1");
  }
  return Shape(sizes);
}

std::vector<Shape> infer_shapes(const InferContext& ctx) { return {squeezed(ctx, ctx.input(0))}; }

// Writing dy for dL/dy:  dx = dy in x's shape.
std::vector<Output> gradient(const GradientContext& ctx) {
  const Output x = ctx.input(0), dy = ctx.output_gradient(0);
  return {x.shape().is_known() ? reshape(dy, x.shape()) : reshape_like(dy, x)};
}

void cpu(KernelContext& ctx) {
  const Tensor& x = ctx.input(0);
  ctx.set_output(0, x.reshaped(squeezed(ctx, x.shape())));
}

}  // namespace

Op squeeze_op() {
  return {.name = "Squeeze",
          .inputs = {"x"},
          .outputs = {"y"},
          .attrs = {{"axes", AttrKind::integers, std::vector<int64_t>{}}},
          .infer_shapes = infer_shapes,
          .gradient = gradient,
          .kernels = {{DeviceKind::cpu, DType::none, cpu}},
          .aliases = true};
}

Output squeeze(Output x, std::vector<int64_t> axes, Origin at) {
  return add_node({.op = "Squeeze", .inputs = {x}, .attrs = {{"axes", std::move(axes)}}}, at);
}

}  // namespace troupe
