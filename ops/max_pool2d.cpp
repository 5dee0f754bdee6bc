// MaxPool2d: y[b, i, j, c] = the greatest x of channel c in window (i, j); NaN if there is one.
// Padding never wins.
//   x: [batch, height, width, channels]   y: [batch, height', width', channels]
//   height' = floor((height - window) / stride) + 1, or ceil(height / stride) with same_padding.
#include "ops/pooling.hpp"

namespace troupe {
namespace {

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  require_kernel(ctx, ctx.dtype(0));
  return {pool_output(ctx, ctx.input(0))};
}

std::vector<Output> gradient(const GradientContext& ctx) {
  return {max_pool2d_gradient(ctx.output_gradient(0), ctx.input(0), pool_options(ctx.node()))};
}

// y = the greater of both; y stays if it is NaN.
template <class T>
void maximum_into(const T* __restrict x, T* __restrict y, int64_t n) {
  for (int64_t c = 0; c < n; ++c) y[c] = ((x[c] > y[c]) | (x[c] != x[c])) ? x[c] : y[c];
}

template <class T>
void cpu(KernelContext& ctx) {
  T* y = ctx.output().template mutable_data<T>();
  const T* x = ctx.input(0).data<T>();
  const PoolSizes sizes(ctx.input(0).shape(), pool_options(ctx.node()));
  for_each_window(sizes, [&](int64_t at, const std::vector<int64_t>& pixels) {
    std::copy_n(x + pixels[0], sizes.channels, y + at);
    for (size_t k = 1; k < pixels.size(); ++k) maximum_into(x + pixels[k], y + at, sizes.channels);
  });
}

struct Pass {
  explicit Pass(const PoolTypes& types)
      : Pass(types, types.forward(dnnl::prop_kind::forward_inference)) {}
  OneDnnPrimitive pool;

 private:
  Pass(const PoolTypes& types, const dnnl::pooling_forward::primitive_desc& desc)
      : pool(dnnl::pooling_forward(desc), desc.scratchpad_desc(),
             {{DNNL_ARG_SRC, types.x}, {DNNL_ARG_DST, types.y}}) {}
};

void cpu_f32(KernelContext& ctx) {
  const Tensor& x = ctx.input(0);
  if (const auto pass = ctx.state<PoolState<Pass>>().find(x, pool_options(ctx.node())))
    pass->pool.execute(ctx, {x.raw(), ctx.output().raw()});
  else
    cpu<float>(ctx);
}

}  // namespace

Op max_pool2d_op() {
  return {.name = "MaxPool2d",
          .inputs = {"x"},
          .outputs = {"y"},
          .attrs = pool_attrs(),
          .infer_shapes = infer_shapes,
          .gradient = gradient,
          .kernels = {{DeviceKind::cpu, DType::f32, cpu_f32, nullptr, PoolState<Pass>::make},
                      {DeviceKind::cpu, DType::f64, cpu<double>}}};
}

Output max_pool2d(Output x, PoolOptions options, Origin at) {
  return add_node({.op = "MaxPool2d", .inputs = {x}, .attrs = pool_attrs(options)}, at);
}

}  // namespace troupe
