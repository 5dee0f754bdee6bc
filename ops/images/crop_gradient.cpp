// CropGradient: dx = zeros, with dy at the position of crop's box.
//   dy: [batch, height, width, channels] of any dtype   offsets: as of crop   x_like: [batch, h, w,
//   channels], only its shape is read   dx: the shape of x_like.
#include <cstring>

#include "ops/images/cropping.hpp"

namespace troupe {
namespace {

template <class Context>
void check_shapes(const Context& ctx, const Shape& dy, const Shape& offsets, const Shape& x) {
  check_crop(ctx, x, offsets);
  const auto& size = image_size(ctx, 0);
  const Shape wanted{x[0], size[0], size[1], x[3]};
  if (!may_equal(dy, wanted))
    throw ctx.error("wants dy of shape ", wanted, ", the boxes of ", x, ", got ", dy);
}

std::vector<DType> infer_dtypes(const InferContext& ctx) {
  require_index_dtype(ctx, 1);
  if (ctx.dtype(0) != ctx.dtype(2))
    throw ctx.error("wants dy and x_like of one dtype, got ", ctx.dtype(0), " and ", ctx.dtype(2));
  return {ctx.dtype(0)};
}

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  check_shapes(ctx, ctx.input(0), ctx.input(1), ctx.input(2));
  return {ctx.input(2)};
}

// Linear in dy. Writing g for the gradient of dx, the gradient of dy is the same boxes of g.
std::vector<Output> gradient(const GradientContext& ctx) {
  const auto& size = ctx.attr<std::vector<int64_t>>("size");
  return {crop(ctx.output_gradient(0), ctx.input(1), size[0], size[1]), Output{}, Output{}};
}

void cpu(KernelContext& ctx) {
  const Tensor &dy = ctx.input(0), &offsets = ctx.input(1);
  const Shape x = ctx.input(2).shape();
  check_shapes(ctx, dy.shape(), offsets.shape(), x);
  check_boxes(ctx, x, offsets);
  Tensor& dx = ctx.output(0, x);
  if (dx.size() == 0) return;
  const auto& size = image_size(ctx, 0);
  const int64_t bytes = size_of(dy.dtype()), row = size[1] * x[3] * bytes;
  const char* from = static_cast<const char*>(dy.raw());
  char* to = static_cast<char*>(dx.mutable_raw());
  std::memset(to, 0, static_cast<size_t>(dx.byte_size()));
  if (dy.size() == 0) return;
  with_boxes(x, offsets, [&](int64_t box) {
    for (int64_t r = 0; r < size[0]; ++r, from += row)
      std::memcpy(to + (box + r * x[2] * x[3]) * bytes, from, static_cast<size_t>(row));
  });
}

}  // namespace

Op crop_gradient_op() {
  return {.name = "CropGradient",
          .inputs = {"dy", "offsets", "x_like"},
          .outputs = {"dx"},
          .attrs = {{"size", AttrKind::integers}},
          .infer_dtypes = infer_dtypes,
          .infer_shapes = infer_shapes,
          .gradient = gradient,
          .kernels = {{DeviceKind::cpu, DType::none, cpu}}};
}

Output crop_gradient(Output dy, Output offsets, Output x_like, int64_t height, int64_t width,
                     Origin at) {
  return add_node({.op = "CropGradient",
                   .inputs = {dy, offsets, x_like},
                   .attrs = {{"size", std::vector<int64_t>{height, width}}}},
                  at);
}

}  // namespace troupe
