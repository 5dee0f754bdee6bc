// MaxPool2dGradient: dx = dL/dx of y = max_pool2d(x), from dy = dL/dy: every dy goes to the first
// maximum of its window in row-major order; what meets there is summed in the order of y.
//   dy: [batch, height', width', channels]   x, dx: [batch, height, width, channels]
#include "ops/pooling.hpp"

namespace troupe {
namespace {

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  require_kernel(ctx, ctx.dtype(0));
  const Shape &dy = ctx.input(0), y = pool_output(ctx, ctx.input(1));
  if (!may_equal(dy, y))
    throw ctx.error("dy ", dy, " does not fit: images ", ctx.input(1), " give ", y);
  return {ctx.input(1)};
}

// Linear in dy. Writing ddx for dL/d(dx):  ddy = ddx where the maxima are. As a function of x it is
// constant in pieces.
std::vector<Output> gradient(const GradientContext& ctx) {
  return {max_pool2d_select(ctx.output_gradient(0), ctx.input(1), pool_options(ctx.node())),
          Output{}};
}

// dx += dy in the channels whose maximum is pixel `number`.
template <class T, class Number>
void add_where(const T* __restrict dy, const Number* __restrict numbers, Number number,
               T* __restrict dx, int64_t n) {
  for (int64_t c = 0; c < n; ++c) {
    const T d = dy[c];  // read in any case, or the compiler cannot use vectors
    dx[c] += numbers[c] == number ? d : T{0};
  }
}

template <class T>
void cpu(KernelContext& ctx) {
  check_actual_shapes(ctx);
  Tensor& output = ctx.output();
  const T *dy = ctx.input(0).data<T>(), *x = ctx.input(1).data<T>();
  T* dx = output.mutable_data<T>();
  std::fill_n(dx, output.size(), T{0});
  const PoolSizes sizes(output.shape(), pool_options(ctx.node()));
  FirstMaxima<T> maxima(sizes.channels);
  for_each_window(sizes, [&](int64_t at, const std::vector<int64_t>& pixels) {
    const auto* numbers = maxima.find(x, pixels);
    for (size_t k = 0; k < pixels.size(); ++k)
      add_where(dy + at, numbers, static_cast<typename FirstMaxima<T>::Number>(k), dx + pixels[k],
                sizes.channels);
  });
}

// oneDNN remembers in a workspace where the maxima are, so it pools again first.
struct Pass {
  explicit Pass(const PoolTypes& types)
      : Pass(types, types.forward(dnnl::prop_kind::forward_training), types.backward()) {}
  OneDnnPrimitive pool, back;
  int64_t y_bytes, workspace_bytes;

 private:
  Pass(const PoolTypes& types, const dnnl::pooling_forward::primitive_desc& there,
       const dnnl::pooling_backward::primitive_desc& again)
      : pool(dnnl::pooling_forward(there), there.scratchpad_desc(),
             {{DNNL_ARG_SRC, types.x},
              {DNNL_ARG_DST, types.y},
              {DNNL_ARG_WORKSPACE, there.workspace_desc()}}),
        back(dnnl::pooling_backward(again), again.scratchpad_desc(),
             {{DNNL_ARG_DIFF_DST, types.y},
              {DNNL_ARG_DIFF_SRC, types.x},
              {DNNL_ARG_WORKSPACE, there.workspace_desc()}}),
        y_bytes(static_cast<int64_t>(types.y.get_size())),
        workspace_bytes(static_cast<int64_t>(there.workspace_desc().get_size())) {}
};

void cpu_f32(KernelContext& ctx) {
  check_actual_shapes(ctx);
  const Tensor &dy = ctx.input(0), &x = ctx.input(1);
  const auto pass = ctx.state<PoolState<Pass>>().find(x, pool_options(ctx.node()));
  if (!pass) return cpu<float>(ctx);
  const Tensor y = ctx.scratch(DType::u8, Shape{pass->y_bytes});
  const Tensor maxima = ctx.scratch(DType::u8, Shape{pass->workspace_bytes});
  pass->pool.execute(ctx, {x.raw(), y.raw(), maxima.raw()});
  pass->back.execute(ctx, {dy.raw(), ctx.output().raw(), maxima.raw()});
}

}  // namespace

Op max_pool2d_gradient_op() {
  return {.name = "MaxPool2dGradient",
          .inputs = {"dy", "x"},
          .outputs = {"dx"},
          .attrs = pool_attrs(),
          .infer_shapes = infer_shapes,
          .gradient = gradient,
          .kernels = {{DeviceKind::cpu, DType::f32, cpu_f32, nullptr, PoolState<Pass>::make},
                      {DeviceKind::cpu, DType::f64, cpu<double>}}};
}

Output max_pool2d_gradient(Output dy, Output x, PoolOptions options, Origin at) {
  return add_node({.op = "MaxPool2dGradient", .inputs = {dy, x}, .attrs = pool_attrs(options)}, at);
}

}  // namespace troupe
