// Conv2dFilterGradient: dfilter = dL/dfilter of y = conv2d(x, filter), from dy = dL/dy.
//   dy: [batch, height', width', out]   x: [batch, height, width, in]
//   filter_like, dfilter: [height, width, in, out]
// Only the shape of filter_like is read.
#include "ops/convolution.hpp"

namespace troupe {
namespace {

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  require_kernel(ctx, ctx.dtype(0));
  require_convolution_gradient(ctx, ctx.input(0), ctx.input(1), ctx.input(2));
  return {ctx.input(2)};
}

// Linear in dy and in x. Writing ddf for dL/d(dfilter):  ddy = conv2d(x, ddf)  and
// dx = the input gradient of that convolution with ddf.
std::vector<Output> gradient(const GradientContext& ctx) {
  const Output dy = ctx.input(0), x = ctx.input(1), ddf = ctx.output_gradient(0);
  const Conv2dOptions options = convolution_options(ctx.node());
  return {conv2d(x, ddf, options), conv2d_input_gradient(dy, ddf, x, options), Output{}};
}

std::unique_ptr<ConvolutionPass> compile(const ConvolutionSizes& sizes) {
  const ConvolutionTypes types(sizes);
  const auto desc = types.backward<dnnl::convolution_backward_weights>();
  const auto dfilter = desc.diff_weights_desc();
  auto pass = std::make_unique<ConvolutionPass>();
  pass->convolution = std::make_unique<OneDnnPrimitive>(
      dnnl::convolution_backward_weights(desc), desc.scratchpad_desc(),
      std::vector<OneDnnPrimitive::Argument>{
          {DNNL_ARG_SRC, types.x}, {DNNL_ARG_DIFF_DST, types.y}, {DNNL_ARG_DIFF_WEIGHTS, dfilter}});
  pass->reorder = onednn_reorder(dfilter, types.filter);
  pass->filter_bytes = static_cast<int64_t>(dfilter.get_size());
  return pass;
}

void cpu_f32(KernelContext& ctx) {
  const Tensor &dy = ctx.input(0), &x = ctx.input(1);
  const auto pass = convolution_pass(ctx, x.shape(), ctx.input(2).shape(), compile);
  if (!pass) return;
  const Tensor& dfilter = ctx.output();
  if (!pass->reorder) return pass->convolution->execute(ctx, {x.raw(), dy.raw(), dfilter.raw()});
  const Tensor packed = ctx.scratch(DType::u8, Shape{pass->filter_bytes});
  pass->convolution->execute(ctx, {x.raw(), dy.raw(), packed.raw()});
  pass->reorder->execute(ctx, {packed.raw(), dfilter.raw()});
}

void cpu_f64(KernelContext& ctx) {
  const Tensor &dy = ctx.input(0), &x = ctx.input(1);
  const double *slopes = dy.data<double>(), *from = x.data<double>();
  sum_products(ctx, x.shape(), ctx.input(2).shape(),
               [=](double* dfilter, int64_t ix, int64_t f, int64_t iy) {
                 dfilter[f] += from[ix] * slopes[iy];
               });
}

}  // namespace

Op conv2d_filter_gradient_op() {
  return {.name = "Conv2dFilterGradient",
          .inputs = {"dy", "x", "filter_like"},
          .outputs = {"dfilter"},
          .attrs = convolution_attrs(),
          .infer_shapes = infer_shapes,
          .gradient = gradient,
          .kernels = {{DeviceKind::cpu, DType::f32, cpu_f32, nullptr, prepare_convolution},
                      {DeviceKind::cpu, DType::f64, cpu_f64, nullptr, prepare_convolution}}};
}

Output conv2d_filter_gradient(Output dy, Output x, Output filter_like, Conv2dOptions options,
                              Origin at) {
  return add_node({.op = "Conv2dFilterGradient",
                   .inputs = {dy, x, filter_like},
                   .attrs = convolution_attrs(options)},
                  at);
}

}  // namespace troupe
