// TileGradient: dx = the sum of the copies in a tile of x_like.
//   dy: the shape of the tile   x_like: only its shape is read   dx: the shape of x_like.
#include "ops/gradients.hpp"
#include "ops/reductions/reduce.hpp"
#include "ops/support/repeats.hpp"

namespace troupe {
namespace {

template <class Context>
void check_tiled(const Context& ctx, const Shape& dy, const Shape& x) {
  const Shape wanted = tiled_shape(ctx, x);
  if (!may_equal(dy, wanted))
    throw ctx.error("wants dy of shape ", wanted, ", a tile of ", x, ", got ", dy);
}

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  require_kernel(ctx, ctx.dtype(0));
  check_tiled(ctx, ctx.input(0), ctx.input(1));
  return {ctx.input(1)};
}

// Writing g for the gradient of dx, the gradient of dy is g tiled.
std::vector<Output> gradient(const GradientContext& ctx) {
  return {tile(ctx.output_gradient(0), ctx.attr<std::vector<int64_t>>("repeats")), Output{}};
}

// One dimension after the other, outermost first, each by the sum of a fixed tree.
void cpu(KernelContext& ctx) {
  const Tensor& dy = ctx.input(0);
  const Shape x = ctx.input(1).shape();
  check_tiled(ctx, dy.shape(), x);
  if (dy.shape() == x) return ctx.set_output(0, dy);
  Tensor& dx = ctx.output(0, x);
  const auto& repeats = ctx.attr<std::vector<int64_t>>("repeats");
  if (dx.size() == 0) return;
  if (dy.size() == 0) return sum_reduction(dx.dtype()).nothing(dx.mutable_raw(), dx.size());
  int last = x.ndim() - 1;
  while (repeats[static_cast<size_t>(last)] == 1) --last;
  Tensor from = dy;
  Shape left = dy.shape();
  for (int d = 0; d <= last; ++d) {
    ReduceView view;
    view.reduced = repeats[static_cast<size_t>(d)];
    if (view.reduced == 1) continue;
    left.set(d, x[d]);
    view.outer = size_between(left, 0, d);
    view.inner = size_between(left, d, left.ndim());
    view.x = from.raw();
    Tensor to = d == last ? dx : ctx.scratch(dx.dtype(), left);
    reduce_elements(ctx, sum_reduction(dx.dtype()), view, to.mutable_raw());
    from = to;
  }
}

}  // namespace

Op tile_gradient_op() {
  return {.name = "TileGradient",
          .inputs = {"dy", "x_like"},
          .outputs = {"dx"},
          .attrs = {{"repeats", AttrKind::integers}},
          .infer_shapes = infer_shapes,
          .gradient = gradient,
          .kernels = {{DeviceKind::cpu, DType::f32, cpu}, {DeviceKind::cpu, DType::f64, cpu}}};
}

Output tile_gradient(Output dy, Output x_like, std::vector<int64_t> repeats, Origin at) {
  return add_node(
      {.op = "TileGradient", .inputs = {dy, x_like}, .attrs = {{"repeats", std::move(repeats)}}},
      at);
}

}  // namespace troupe
