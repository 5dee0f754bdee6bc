// DepthToSpace: y = the channels of each pixel as a block of s x s pixels.
//   x: [b, h, w, s * s * c]   y: [b, h * s, w * s, c]; the order is in ops/images/depth_blocks.hpp.
#include "ops/images/depth_blocks.hpp"
#include "ops/support/node.hpp"
#include "ops/support/repeats.hpp"
#include "troupe/ops.hpp"

namespace troupe {
namespace {

template <class Context>
Shape image_shape(const Context& ctx, const Shape& x) {
  const int64_t s = checked_block(ctx, x);
  if (x[3] > 0 && x[3] % (s * s) != 0)
    throw ctx.error("cannot make blocks of ", s, " x ", s, " pixels of the ", x[3], " channels of ",
                    x, "; their number must be a multiple of ", s * s);
  Shape y = x;
  for (int d = 1; d <= 2; ++d) y.set(d, repeated_size(ctx, x[d], s));
  if (x[3] > 0) y.set(3, x[3] / (s * s));
  return y;
}

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  return {image_shape(ctx, ctx.input(0))};
}

// Writing dy for dL/dy:  dx = space_to_depth(dy).
std::vector<Output> gradient(const GradientContext& ctx) {
  return {space_to_depth(ctx.output_gradient(0), ctx.attr<int64_t>("block"))};
}

void cpu(KernelContext& ctx) {
  const Tensor& x = ctx.input(0);
  const Shape deep = x.shape();
  Tensor& y = ctx.output(0, image_shape(ctx, deep));
  if (y.size() == 0) return;
  const DepthBlocks blocks(deep, ctx.attr<int64_t>("block"));
  copy_strided(ctx, size_of(x.dtype()), blocks.shape, x.raw(), blocks.depth, y.mutable_raw(),
               blocks.image);
}

}  // namespace

Op depth_to_space_op() {
  return {.name = "DepthToSpace",
          .inputs = {"x"},
          .outputs = {"y"},
          .attrs = {{"block", AttrKind::integer}},
          .infer_shapes = infer_shapes,
          .gradient = gradient,
          .kernels = {{DeviceKind::cpu, DType::none, cpu}}};
}

Output depth_to_space(Output x, int64_t block, Origin at) {
  return add_node({.op = "DepthToSpace", .inputs = {x}, .attrs = {{"block", block}}}, at);
}

}  // namespace troupe
