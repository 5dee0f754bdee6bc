// Crop: y = a box of each image, at offsets known only in the step.
//   x: [batch, h, w, channels] of any dtype   offsets: [2], top and left, or [batch, 2], i32 or i64
//   y: [batch, height, width, channels]
//
// CropGradient: dx = zeros, with dy at the position of crop's box.
//   dy: [batch, height, width, channels] of any dtype   offsets: as of crop   x_like: [batch, h, w,
//   channels], only its shape is read   dx: the shape of x_like.
#include <cstring>

#include "ops/images/resizing.hpp"
#include "ops/support/indices.hpp"

namespace troupe {

// Zeros like x_like, with dy at the position of crop's box.
Output crop_gradient(Output dy, Output offsets, Output x_like, int64_t height, int64_t width,
                     Origin at = Origin::here());

namespace {

// Context: InferContext or KernelContext. Throws: Error for shapes that do not fit.
template <class Context>
void check_crop(const Context& ctx, const Shape& x, const Shape& offsets) {
  require_images(ctx, x);
  const auto& size = image_size(ctx, 0);
  for (int d = 0; d < 2; ++d)
    if (x[d + 1] >= 0 && size[static_cast<size_t>(d)] > x[d + 1])
      throw ctx.error("cuts ", size[0], " rows and ", size[1], " columns out of ", x,
                      ", which has fewer");
  const int last = offsets.ndim() - 1;
  if (last < 0 || last > 1 || !may_equal(offsets[last], 2) ||
      (last == 1 && !may_equal(offsets[0], x[0])))
    throw ctx.error("wants offsets [2], top and left, or [batch, 2], got ", offsets, " for ", x);
}

// Throws: Error with the first image whose box is not inside it.
void check_boxes(const KernelContext& ctx, const Shape& x, const Tensor& offsets) {
  const auto& size = image_size(ctx, 0);
  const int64_t step = offsets.ndim() == 2 ? 2 : 0;
  with_indices(offsets, [&](const auto* at) {
    for (int64_t b = 0; b < x[0]; ++b)
      for (int d = 0; d < 2; ++d) {
        const int64_t first = at[b * step + d], room = x[d + 1] - size[static_cast<size_t>(d)];
        if (first < 0 || first > room)
          throw ctx.error(d == 0 ? "top " : "left ", first, " of image ", b, " is not in [0, ",
                          room, "], where the box is inside");
      }
  });
}

// Calls f(box) for each image in order; `box` is the index of the box's first element in x.
template <class F>
void with_boxes(const Shape& x, const Tensor& offsets, const F& f) {
  const int64_t step = offsets.ndim() == 2 ? 2 : 0, line = x[2] * x[3];
  with_indices(offsets, [&](const auto* at) {
    for (int64_t b = 0; b < x[0]; ++b)
      f((b * x[1] + at[b * step]) * line + at[b * step + 1] * x[3]);
  });
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

template <class Context>
void check_shapes(const Context& ctx, const Shape& dy, const Shape& offsets, const Shape& x) {
  check_crop(ctx, x, offsets);
  const auto& size = image_size(ctx, 0);
  const Shape wanted{x[0], size[0], size[1], x[3]};
  if (!may_equal(dy, wanted))
    throw ctx.error("wants dy of shape ", wanted, ", the boxes of ", x, ", got ", dy);
}

std::vector<DType> infer_gradient_dtypes(const InferContext& ctx) {
  require_index_dtype(ctx, 1);
  if (ctx.dtype(0) != ctx.dtype(2))
    throw ctx.error("wants dy and x_like of one dtype, got ", ctx.dtype(0), " and ", ctx.dtype(2));
  return {ctx.dtype(0)};
}

std::vector<Shape> infer_gradient_shapes(const InferContext& ctx) {
  check_shapes(ctx, ctx.input(0), ctx.input(1), ctx.input(2));
  return {ctx.input(2)};
}

// Linear in dy. Writing g for the gradient of dx, the gradient of dy is the same boxes of g.
std::vector<Output> gradient_of_gradient(const GradientContext& ctx) {
  const auto& size = ctx.attr<std::vector<int64_t>>("size");
  return {crop(ctx.output_gradient(0), ctx.input(1), size[0], size[1]), Output{}, Output{}};
}

void cpu_gradient(KernelContext& ctx) {
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

Op crop_op() {
  return {.name = "Crop",
          .inputs = {"x", "offsets"},
          .outputs = {"y"},
          .attrs = {{"size", AttrKind::integers}},
          .infer_dtypes = infer_dtype_with_indices,
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

Op crop_gradient_op() {
  return {.name = "CropGradient",
          .inputs = {"dy", "offsets", "x_like"},
          .outputs = {"dx"},
          .attrs = {{"size", AttrKind::integers}},
          .infer_dtypes = infer_gradient_dtypes,
          .infer_shapes = infer_gradient_shapes,
          .gradient = gradient_of_gradient,
          .kernels = {{DeviceKind::cpu, DType::none, cpu_gradient}}};
}

Output crop_gradient(Output dy, Output offsets, Output x_like, int64_t height, int64_t width,
                     Origin at) {
  return add_node({.op = "CropGradient",
                   .inputs = {dy, offsets, x_like},
                   .attrs = {{"size", std::vector<int64_t>{height, width}}}},
                  at);
}

}  // namespace troupe
