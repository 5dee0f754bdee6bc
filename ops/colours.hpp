// What RgbToHsv and HsvToRgb share: kernels over pixels of three numbers.
#pragma once

#include "ops/elementwise.hpp"
#include "troupe/ops/images.hpp"

namespace troupe {

inline std::vector<Shape> infer_pixels(const InferContext& ctx) {
  require_kernel(ctx, ctx.dtype(0));
  const Shape& x = ctx.input(0);
  if (x.ndim() < 1 || !may_equal(x[x.ndim() - 1], 3))
    throw ctx.error("wants three numbers a pixel, [..., 3], got ", x);
  return {x};
}

// y = F::apply of three numbers each; y may be x.
template <class F>
struct PixelLoop {
  template <class T>
  static void run(const T* x, T* y, int64_t pixels) {
    TROUPE_INDEPENDENT
    for (int64_t i = 0; i < pixels; ++i)
      F::apply(x[3 * i], x[3 * i + 1], x[3 * i + 2], y[3 * i], y[3 * i + 1], y[3 * i + 2]);
  }
};

template <class F, class T>
void run_pixels(KernelContext& ctx) {
  check_actual_shapes(ctx);
  const T* x = ctx.input(0).data<T>();
  const int64_t pixels = ctx.input(0).size() / 3;
  T* y = ctx.output_in_place().template mutable_data<T>();
  in_parts(ctx, pixels,
           [=](int64_t at, int64_t n) { in_isa<PixelLoop<F>>(x + 3 * at, y + 3 * at, n); });
}

template <class F>
Op pixel_op(std::string name) {
  return {.name = std::move(name),
          .inputs = {"x"},
          .outputs = {"y"},
          .infer_shapes = infer_pixels,
          .no_gradient =
              "it is for inputs of a model; where a gradient is needed, write it with "
              "maximum, minimum and where",
          .kernels = {{DeviceKind::cpu, DType::f32, run_pixels<F, float>},
                      {DeviceKind::cpu, DType::f64, run_pixels<F, double>}},
          .in_place = true};
}

}  // namespace troupe
