// Crop: y = a box of each image, at offsets known only in the step.
//   x: [batch, h, w, channels] of any dtype   offsets: [2], top and left, or [batch, 2], i32 or i64
//   y: [batch, height, width, channels]
#include <cstring>

#include "ops/images/cropping.hpp"

namespace troupe {
namespace {

std::vector<DType> infer_dtypes(const InferContext& ctx) {
  require_index_dtype(ctx, 1);
  return {ctx.dtype(0)};
}

Shape cropped(const Shape& x, const std::vector<int64_t>& size) {
  return {x[0], size[0], size[1], x[3]};
}

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  check_crop(ctx, ctx.input(0), ctx.input(1));
  return {cropped(ctx.input(0), image_size(ctx, 0))};
}

// Linear: dx = zeros with dy in the box.
std::vector<Output> gradient(const GradientContext& ctx) {
  const auto& size = ctx.attr<std::vector<int64_t>>("size");
  return {crop_gradient(ctx.output_gradient(0), ctx.input(1), ctx.input(0), size[0], size[1]),
          Output{}};
}

void cpu(KernelContext& ctx) {
  const Tensor &x = ctx.input(0), &offsets = ctx.input(1);
  const Shape shape = x.shape();
  check_crop(ctx, shape, offsets.shape());
  check_boxes(ctx, shape, offsets);
  const auto& size = image_size(ctx, 0);
  Tensor& y = ctx.output(0, cropped(shape, size));
  if (y.size() == 0) return;
  const int64_t bytes = size_of(x.dtype()), row = size[1] * shape[3] * bytes;
  const char* from = static_cast<const char*>(x.raw());
  char* to = static_cast<char*>(y.mutable_raw());
  with_boxes(shape, offsets, [&](int64_t box) {
    for (int64_t r = 0; r < size[0]; ++r, to += row)
      std::memcpy(to, from + (box + r * shape[2] * shape[3]) * bytes, static_cast<size_t>(row));
  });
}

}  // namespace

Op crop_op() {
  return {.name = "Crop",
          .inputs = {"x", "offsets"},
          .outputs = {"y"},
          .attrs = {{"size", AttrKind::integers}},
          .infer_dtypes = infer_dtypes,
          .infer_shapes = infer_shapes,
          .gradient = gradient,
          .kernels = {{DeviceKind::cpu, DType::none, cpu}}};
}

Output crop(Output x, Output offsets, int64_t height, int64_t width, Origin at) {
  return add_node({.op = "Crop",
                   .inputs = {x, offsets},
                   .attrs = {{"size", std::vector<int64_t>{height, width}}}},
                  at);
}

}  // namespace troupe
