// CropImages: y[b, i, j, :] = x[b, offsets[b, 0] + i, offsets[b, 1] + j, :].
//   x: [batch, h, w, channels] of any dtype   offsets: [batch, 2], i32 or i64   y: [batch, height,
//   width, channels]
#include "ops/crop_images.hpp"

#include <cstring>

namespace troupe {
namespace {

std::vector<DType> infer_dtypes(const InferContext& ctx) {
  require_index_dtype(ctx, 1);
  return {ctx.dtype(0)};
}

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  const int64_t height = ctx.attr<int64_t>("height"), width = ctx.attr<int64_t>("width");
  if (height < 0 || width < 0)
    throw ctx.error("wants a height and a width that are not negative, got ", height, " and ",
                    width);
  check_crop(ctx, ctx.input(0), ctx.input(1), height, width);
  return {Shape{ctx.input(0)[0], height, width, ctx.input(0)[3]}};
}

std::vector<Output> gradient(const GradientContext& ctx) {
  const Output x = ctx.input(0), dy = ctx.output_gradient(0);
  if (!is_floating(x.dtype())) return {Output{}, Output{}};
  return {crop_images_gradient(dy, ctx.input(1), x), Output{}};
}

void cpu(KernelContext& ctx) {
  check_actual_shapes(ctx);
  const Tensor& input = ctx.input(0);
  const Shape x = input.shape();
  const int64_t height = ctx.attr<int64_t>("height"), width = ctx.attr<int64_t>("width");
  const int64_t pixel = x[3] * size_of(input.dtype());
  const char* from = static_cast<const char*>(input.raw());
  char* y = nullptr;
  for_each_part(ctx, ctx.input(1), x, height, width, [&](int64_t b, int64_t row, int64_t column) {
    if (!y) y = static_cast<char*>(ctx.output(0, Shape{x[0], height, width, x[3]}).mutable_raw());
    for (int64_t i = 0; i < height; ++i)
      std::memcpy(y + (b * height + i) * width * pixel,
                  from + ((b * x[1] + row + i) * x[2] + column) * pixel,
                  static_cast<size_t>(width * pixel));
  });
  if (!y) ctx.output(0, Shape{x[0], height, width, x[3]});
}

}  // namespace

Op crop_images_op() {
  return {.name = "CropImages",
          .inputs = {"x", "offsets"},
          .outputs = {"y"},
          .attrs = {{"height", AttrKind::integer}, {"width", AttrKind::integer}},
          .infer_dtypes = infer_dtypes,
          .infer_shapes = infer_shapes,
          .gradient = gradient,
          .kernels = {{DeviceKind::cpu, DType::none, cpu}}};
}

Output crop_images(Output x, Output offsets, int64_t height, int64_t width, Origin at) {
  return add_node(
      {.op = "CropImages", .inputs = {x, offsets}, .attrs = {{"height", height}, {"width", width}}},
      at);
}

}  // namespace troupe
