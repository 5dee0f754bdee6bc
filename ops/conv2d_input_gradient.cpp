// Conv2dInputGradient: dx = dL/dx of y = conv2d(x, filter), from dy = dL/dy. Also called a
// transposed convolution.
//   dy: [batch, height', width', out]   filter: [height, width, in, out]   x_like, dx: [batch,
//   height, width, in]
// Only the shape of x_like is read.
#include "ops/convolution.hpp"
#include "ops/node.hpp"

namespace troupe {
namespace {

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  require_kernel(ctx, ctx.dtype(0));
  require_convolution_gradient(ctx, ctx.input(0), ctx.input(2), ctx.input(1));
  return {ctx.input(2)};
}

// Linear in dy and in the filter. Writing ddx for dL/d(dx):  ddy = conv2d(ddx, filter)  and
// dfilter = the filter gradient of that convolution of ddx.
std::vector<Output> gradient(const GradientContext& ctx) {
  const Output dy = ctx.input(0), filter = ctx.input(1), ddx = ctx.output_gradient(0);
  const Conv2dOptions options = convolution_options(ctx.node());
  return {conv2d(ddx, filter, options), conv2d_filter_gradient(dy, ddx, filter, options), Output{}};
}

std::unique_ptr<ConvolutionPass> compile(const ConvolutionSizes& sizes) {
  using Forward = dnnl::convolution_forward;
  using Backward = dnnl::convolution_backward_data;
  const ConvolutionTypes types(sizes);
  const Forward::primitive_desc hint(
      {dnnl::prop_kind::forward_training, dnnl::algorithm::convolution_direct, types.x,
       types.any_filter, types.y, types.strides, types.before, types.after},
      onednn_attr(), onednn_engine());
  const Backward::primitive_desc desc(
      {dnnl::algorithm::convolution_direct, types.x, types.any_filter, types.y, types.strides,
       types.before, types.after},
      onednn_attr(), onednn_engine(), hint);
  const auto filter = desc.weights_desc();
  auto pass = std::make_unique<ConvolutionPass>();
  pass->convolution = std::make_unique<OneDnnPrimitive>(
      Backward(desc), desc.scratchpad_desc(),
      std::vector<OneDnnPrimitive::Argument>{
          {DNNL_ARG_DIFF_DST, types.y}, {DNNL_ARG_WEIGHTS, filter}, {DNNL_ARG_DIFF_SRC, types.x}});
  pass->reorder = onednn_reorder(types.filter, filter);
  pass->filter_bytes = static_cast<int64_t>(filter.get_size());
  return pass;
}

void cpu_f32(KernelContext& ctx) {
  check_actual_shapes(ctx);
  Tensor& dx = ctx.output();
  const Tensor &dy = ctx.input(0), &filter = ctx.input(1);
  const auto& state = ctx.state<ConvolutionState>();
  const ConvolutionSizes sizes(ctx.input(2).shape(), filter.shape(), state.options);
  if (sizes.is_empty()) {
    std::fill_n(dx.mutable_data<float>(), dx.size(), 0.0f);
    return;
  }
  const auto pass = state.passes.get(sizes.key(), [&] { return compile(sizes); });
  Tensor packed;
  if (pass->reorder) {
    packed = ctx.scratch(DType::u8, Shape{pass->filter_bytes});
    pass->reorder->execute(ctx, {filter.raw(), packed.raw()});
  }
  pass->convolution->execute(ctx,
                             {dy.raw(), pass->reorder ? packed.raw() : filter.raw(), dx.raw()});
}

void cpu_f64(KernelContext& ctx) {
  check_actual_shapes(ctx);
  Tensor& output = ctx.output();
  const Tensor& filter = ctx.input(1);
  const double *dy = ctx.input(0).data<double>(), *factors = filter.data<double>();
  double* dx = output.mutable_data<double>();
  std::fill_n(dx, output.size(), 0.0);
  const ConvolutionSizes s(output.shape(), filter.shape(), ctx.state<ConvolutionState>().options);
  for_each_tap(s, [&](int64_t at_x, int64_t at_filter, int64_t at_y) {
    for (int64_t c = 0; c < s.in; ++c)
      for (int64_t o = 0; o < s.out; ++o)
        dx[at_x + c] += dy[at_y + o] * factors[at_filter + c * s.out + o];
  });
}

}  // namespace

Op conv2d_input_gradient_op() {
  return {.name = "Conv2dInputGradient",
          .inputs = {"dy", "filter", "x_like"},
          .outputs = {"dx"},
          .attrs = convolution_attrs(),
          .infer_shapes = infer_shapes,
          .gradient = gradient,
          .kernels = {{DeviceKind::cpu, DType::f32, cpu_f32, nullptr, prepare_convolution},
                      {DeviceKind::cpu, DType::f64, cpu_f64, nullptr, prepare_convolution}}};
}

Output conv2d_input_gradient(Output dy, Output filter, Output x_like, Conv2dOptions options,
                             Origin at) {
  return add_node({.op = "Conv2dInputGradient",
                   .inputs = {dy, filter, x_like},
                   .attrs = convolution_attrs(options)},
                  at);
}

}  // namespace troupe
