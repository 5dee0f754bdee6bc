// MaxPool2dSelect: y = the elements of `values` that stand where max_pool2d(x) finds its maxima
// (the first of equals). The backward half of max_pool2d_gradient, so that pools can be
// differentiated twice.
//   values, x: [batch, height, width, channels]   y: [batch, height', width', channels]
#include "ops/pooling.hpp"

namespace troupe {
namespace {

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  require_kernel(ctx, ctx.dtype(0));
  const Shape &values = ctx.input(0), &x = ctx.input(1);
  const Shape y = pool_output(ctx, x);
  if (!may_equal(values, x))
    throw ctx.error("wants two shapes that are equal, got ", values, " and ", x);
  return {y};
}

// Writing dy for dL/dy:  dvalues = dy put back to where it was selected. As a function of x it is
// constant in pieces.
std::vector<Output> gradient(const GradientContext& ctx) {
  return {max_pool2d_gradient(ctx.output_gradient(0), ctx.input(1), pool_options(ctx.node())),
          Output{}};
}

template <class T>
void cpu(KernelContext& ctx) {
  check_actual_shapes(ctx);
  T* y = ctx.output().template mutable_data<T>();
  const T *values = ctx.input(0).data<T>(), *x = ctx.input(1).data<T>();
  const PoolSizes sizes(ctx.input(1).shape(), pool_options(ctx.node()));
  FirstMaxima<T> maxima(sizes.channels);
  for_each_window(sizes, [&](int64_t at, const std::vector<int64_t>& pixels) {
    const auto* numbers = maxima.find(x, pixels);
    for (int64_t c = 0; c < sizes.channels; ++c)
      y[at + c] = values[pixels[static_cast<size_t>(numbers[c])] + c];
  });
}

}  // namespace

Op max_pool2d_select_op() {
  return {.name = "MaxPool2dSelect",
          .inputs = {"values", "x"},
          .outputs = {"y"},
          .attrs = pool_attrs(),
          .infer_shapes = infer_shapes,
          .gradient = gradient,
          .kernels = {{DeviceKind::cpu, DType::f32, cpu<float>},
                      {DeviceKind::cpu, DType::f64, cpu<double>}}};
}

Output max_pool2d_select(Output values, Output x, PoolOptions options, Origin at) {
  return add_node({.op = "MaxPool2dSelect", .inputs = {values, x}, .attrs = pool_attrs(options)},
                  at);
}

}  // namespace troupe
