// SpaceToDepth: y = blocks of s x s pixels as the channels of one pixel.
//   x: [b, h * s, w * s, c]   y: [b, h, w, s * s * c]; the order is in ops/images/depth_blocks.hpp.
#include "ops/images/depth_blocks.hpp"
#include "ops/support/node.hpp"
#include "ops/support/repeats.hpp"
#include "troupe/ops.hpp"

namespace troupe {
namespace {

template <class Context>
Shape deep_shape(const Context& ctx, const Shape& x) {
  const int64_t s = checked_block(ctx, x);
  Shape y = x;
  for (int d = 1; d <= 2; ++d) {
    if (x[d] > 0 && x[d] % s != 0)
      throw ctx.error("cannot cut axis ", d, " of ", x, " into blocks of ", s,
                      "; pad it to a multiple");
    if (x[d] > 0) y.set(d, x[d] / s);
  }
  y.set(3, repeated_size(ctx, x[3], s * s));
  return y;
}

std::vector<Shape> infer_shapes(const InferContext& ctx) { return {deep_shape(ctx, ctx.input(0))}; }

// Writing dy for dL/dy:  dx = depth_to_space(dy).
std::vector<Output> gradient(const GradientContext& ctx) {
  return {depth_to_space(ctx.output_gradient(0), ctx.attr<int64_t>("block"))};
}

void cpu(KernelContext& ctx) {
  const Tensor& x = ctx.input(0);
  const Shape deep = deep_shape(ctx, x.shape());
  Tensor& y = ctx.output(0, deep);
  if (y.size() == 0) return;
  const DepthBlocks blocks(deep, ctx.attr<int64_t>("block"));
  copy_strided(ctx, size_of(x.dtype()), blocks.shape, x.raw(), blocks.image, y.mutable_raw(),
               blocks.depth);
}

}  // namespace

Op space_to_depth_op() {
  return {.name = "SpaceToDepth",
          .inputs = {"x"},
          .outputs = {"y"},
          .attrs = {{"block", AttrKind::integer}},
          .infer_shapes = infer_shapes,
          .gradient = gradient,
          .kernels = {{DeviceKind::cpu, DType::none, cpu}}};
}

Output space_to_depth(Output x, int64_t block, Origin at) {
  return add_node({.op = "SpaceToDepth", .inputs = {x}, .attrs = {{"block", block}}}, at);
}

}  // namespace troupe
