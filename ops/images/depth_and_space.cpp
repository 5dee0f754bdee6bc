// DepthToSpace: y = the channels of each pixel as a block of s x s pixels. SpaceToDepth: the
// reverse.
//   an image: [b, h * s, w * s, c]   its depth: [b, h, w, s * s * c]
// Channel (i * s + j) * c + k of a pixel is channel k at (i, j) of its block.
#include "ops/support/node.hpp"
#include "ops/support/repeats.hpp"
#include "ops/support/strided.hpp"
#include "troupe/ops.hpp"

namespace troupe {
namespace {

template <class Context>
int64_t checked_block(const Context& ctx, const Shape& x) {
  constexpr int64_t kBlockMax = 65536;  // its square is far from an overflow
  const int64_t block = ctx.template attr<int64_t>("block");
  if (block < 1 || block > kBlockMax)
    throw ctx.error("wants a block size from 1 to ", kBlockMax, ", got ", block);
  if (x.ndim() != 4) throw ctx.error("wants images [batch, height, width, channels], got ", x);
  return block;
}

// Both images viewed as [b, h, w, s, s, c].
struct DepthBlocks {
  Shape shape;
  Strides image = {}, depth = {};
  // `deep`: [b, h, w, s * s * c].
  DepthBlocks(const Shape& deep, int64_t s) : shape{deep[0], deep[1], deep[2], s, s, 1} {
    const int64_t h = deep[1], w = deep[2], c = deep[3] / (s * s);
    shape.set(5, c);
    depth = dense_strides(shape);
    image = {h * s * w * s * c, s * w * s * c, s * c, w * s * c, c, 1};
  }
};

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

void run_image(KernelContext& ctx) {
  const Tensor& x = ctx.input(0);
  const Shape deep = x.shape();
  Tensor& y = ctx.output(0, image_shape(ctx, deep));
  if (y.size() == 0) return;
  const DepthBlocks blocks(deep, ctx.attr<int64_t>("block"));
  copy_strided(ctx, size_of(x.dtype()), blocks.shape, x.raw(), blocks.depth, y.mutable_raw(),
               blocks.image);
}

void run_deep(KernelContext& ctx) {
  const Tensor& x = ctx.input(0);
  const Shape deep = deep_shape(ctx, x.shape());
  Tensor& y = ctx.output(0, deep);
  if (y.size() == 0) return;
  const DepthBlocks blocks(deep, ctx.attr<int64_t>("block"));
  copy_strided(ctx, size_of(x.dtype()), blocks.shape, x.raw(), blocks.image, y.mutable_raw(),
               blocks.depth);
}

// Each is the gradient of the other.
template <Output (*kInverse)(Output, int64_t, Origin)>
std::vector<Output> gradient(const GradientContext& ctx) {
  return {kInverse(ctx.output_gradient(0), ctx.attr<int64_t>("block"), Origin::here())};
}

Op block_op(const char* name, decltype(Op::infer_shapes) infer_shapes,
            decltype(Op::gradient) gradient, decltype(Kernel::run) run) {
  return {.name = name,
          .inputs = {"x"},
          .outputs = {"y"},
          .attrs = {{"block", AttrKind::integer}},
          .infer_shapes = infer_shapes,
          .gradient = gradient,
          .kernels = {{DeviceKind::cpu, DType::none, run}}};
}

}  // namespace

Op depth_to_space_op() {
  const auto shapes = [](const InferContext& ctx) {
    return std::vector{image_shape(ctx, ctx.input(0))};
  };
  return block_op("DepthToSpace", shapes, gradient<space_to_depth>, run_image);
}

Op space_to_depth_op() {
  const auto shapes = [](const InferContext& ctx) {
    return std::vector{deep_shape(ctx, ctx.input(0))};
  };
  return block_op("SpaceToDepth", shapes, gradient<depth_to_space>, run_deep);
}

Output depth_to_space(Output x, int64_t block, Origin at) {
  return add_node({.op = "DepthToSpace", .inputs = {x}, .attrs = {{"block", block}}}, at);
}

Output space_to_depth(Output x, int64_t block, Origin at) {
  return add_node({.op = "SpaceToDepth", .inputs = {x}, .attrs = {{"block", block}}}, at);
}

}  // namespace troupe
