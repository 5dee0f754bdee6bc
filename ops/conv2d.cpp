// Conv2d: y[b, i, j, o] = sum over p, q, c of x[b, i * stride + p - top, j * stride + q - left, c]
// * filter[p, q, c, o]; pixels outside of x count as 0. (A cross-correlation, as everywhere in the
// field.)
//   x: [batch, height, width, in]   filter: [height, width, in, out]   y: [batch, height', width',
//   out] height' = ceil(height / stride) with same_padding, else floor((height - filter height) /
//   stride) + 1.
#include "ops/convolution.hpp"
#include "ops/node.hpp"

namespace troupe {
namespace {

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  require_kernel(ctx, ctx.dtype(0));
  return {convolution_output(ctx, ctx.input(0), ctx.input(1))};
}

std::vector<Output> gradient(const GradientContext& ctx) {
  const Output x = ctx.input(0), filter = ctx.input(1), dy = ctx.output_gradient(0);
  const Conv2dOptions options = convolution_options(ctx.node());
  return {conv2d_input_gradient(dy, filter, x, options),
          conv2d_filter_gradient(dy, x, filter, options)};
}

std::unique_ptr<ConvolutionPass> compile(const ConvolutionSizes& sizes) {
  using Forward = dnnl::convolution_forward;
  const ConvolutionTypes types(sizes);
  const Forward::primitive_desc desc(
      {dnnl::prop_kind::forward_training, dnnl::algorithm::convolution_direct, types.x,
       types.any_filter, types.y, types.strides, types.before, types.after},
      onednn_attr(), onednn_engine());
  const auto filter = desc.weights_desc();
  auto pass = std::make_unique<ConvolutionPass>();
  pass->convolution = std::make_unique<OneDnnPrimitive>(
      Forward(desc), desc.scratchpad_desc(),
      std::vector<OneDnnPrimitive::Argument>{
          {DNNL_ARG_SRC, types.x}, {DNNL_ARG_WEIGHTS, filter}, {DNNL_ARG_DST, types.y}});
  pass->reorder = onednn_reorder(types.filter, filter);
  pass->filter_bytes = static_cast<int64_t>(filter.get_size());
  return pass;
}

void cpu_f32(KernelContext& ctx) {
  check_actual_shapes(ctx);
  Tensor& y = ctx.output();
  const Tensor &x = ctx.input(0), &filter = ctx.input(1);
  const auto& state = ctx.state<ConvolutionState>();
  const ConvolutionSizes sizes(x.shape(), filter.shape(), state.options);
  if (sizes.is_empty()) {
    std::fill_n(y.mutable_data<float>(), y.size(), 0.0f);
    return;
  }
  const auto pass = state.passes.get(sizes.key(), [&] { return compile(sizes); });
  Tensor packed;
  if (pass->reorder) {
    packed = ctx.scratch(DType::u8, Shape{pass->filter_bytes});
    pass->reorder->execute(ctx, {filter.raw(), packed.raw()});
  }
  pass->convolution->execute(ctx, {x.raw(), pass->reorder ? packed.raw() : filter.raw(), y.raw()});
}

void cpu_f64(KernelContext& ctx) {
  check_actual_shapes(ctx);
  Tensor& output = ctx.output();
  const Tensor &x = ctx.input(0), &filter = ctx.input(1);
  const double *from = x.data<double>(), *factors = filter.data<double>();
  double* y = output.mutable_data<double>();
  std::fill_n(y, output.size(), 0.0);
  const ConvolutionSizes s(x.shape(), filter.shape(), ctx.state<ConvolutionState>().options);
  for_each_tap(s, [&](int64_t at_x, int64_t at_filter, int64_t at_y) {
    for (int64_t c = 0; c < s.in; ++c)
      for (int64_t o = 0; o < s.out; ++o)
        y[at_y + o] += from[at_x + c] * factors[at_filter + c * s.out + o];
  });
}

}  // namespace

Op conv2d_op() {
  return {.name = "Conv2d",
          .inputs = {"x", "filter"},
          .outputs = {"y"},
          .attrs = convolution_attrs(),
          .infer_shapes = infer_shapes,
          .gradient = gradient,
          .kernels = {{DeviceKind::cpu, DType::f32, cpu_f32, nullptr, prepare_convolution},
                      {DeviceKind::cpu, DType::f64, cpu_f64, nullptr, prepare_convolution}}};
}

Output conv2d(Output x, Output filter, Conv2dOptions options, Origin at) {
  return add_node({.op = "Conv2d", .inputs = {x, filter}, .attrs = convolution_attrs(options)}, at);
}

}  // namespace troupe
