// CropImagesGradient: zeros like x with dy where crop_images took its parts.
//   dy: [batch, height, width, channels], f32 or f64   offsets: [batch, 2], i32 or i64   x_like:
//   only its shape is used   dx: the shape of x_like
#include <algorithm>

#include "ops/crop_images.hpp"

namespace troupe {
namespace {

std::vector<DType> infer_dtypes(const InferContext& ctx) {
  require_index_dtype(ctx, 1);
  return {ctx.dtype(0)};
}

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  require_kernel(ctx, ctx.dtype(0));
  const Shape &dy = ctx.input(0), &x = ctx.input(2);
  if (dy.ndim() != 4) throw ctx.error("wants dy [batch, height, width, channels], got ", dy);
  check_crop(ctx, x, ctx.input(1), dy[1], dy[2]);
  if (!may_equal(dy[0], x[0]) || !may_equal(dy[3], x[3]))
    throw ctx.error("dy ", dy, " has other images or channels than x ", x);
  return {x};
}

// It is linear in dy.
std::vector<Output> gradient(const GradientContext& ctx) {
  const Shape& dy = ctx.input(0).shape();
  if (dy[1] < 0 || dy[2] < 0)
    throw Error(Errc::invalid_argument, describe(ctx.node()),
                ": its gradient needs the height and width of dy, got ", dy);
  return {crop_images(ctx.output_gradient(0), ctx.input(1), dy[1], dy[2]), Output{}, Output{}};
}

template <class T>
void cpu(KernelContext& ctx) {
  check_actual_shapes(ctx);
  const Shape part = ctx.input(0).shape(), x = ctx.input(2).shape();
  const T* dy = ctx.input(0).data<T>();
  T* dx = nullptr;
  const auto make = [&] {
    dx = ctx.output(0, x).template mutable_data<T>();
    std::fill_n(dx, x.size(), T{0});
  };
  for_each_part(ctx, ctx.input(1), x, part[1], part[2],
                [&](int64_t b, int64_t row, int64_t column) {
                  if (!dx) make();
                  for (int64_t i = 0; i < part[1]; ++i)
                    std::copy_n(dy + (b * part[1] + i) * part[2] * x[3], part[2] * x[3],
                                dx + ((b * x[1] + row + i) * x[2] + column) * x[3]);
                });
  if (!dx) make();
}

}  // namespace

Op crop_images_gradient_op() {
  return {.name = "CropImagesGradient",
          .inputs = {"dy", "offsets", "x_like"},
          .outputs = {"dx"},
          .infer_dtypes = infer_dtypes,
          .infer_shapes = infer_shapes,
          .gradient = gradient,
          .kernels = {{DeviceKind::cpu, DType::f32, cpu<float>},
                      {DeviceKind::cpu, DType::f64, cpu<double>}}};
}

Output crop_images_gradient(Output dy, Output offsets, Output x_like, Origin at) {
  return add_node({.op = "CropImagesGradient", .inputs = {dy, offsets, x_like}}, at);
}

}  // namespace troupe
