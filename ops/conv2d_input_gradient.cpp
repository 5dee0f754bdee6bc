// Conv2dInputGradient: dx = dL/dx of y = conv2d(x, filter), from dy = dL/dy. Also called a
// transposed convolution.
//   dy: [batch, height', width', out]   filter: [height, width, in, out]
//   x_like, dx: [batch, height, width, in]
// Only the shape of x_like is read.
#include "ops/convolution.hpp"

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

CompiledConvolution compile(const ConvolutionTypes& types) {
  const auto desc = types.backward<dnnl::convolution_backward_data>();
  const auto filter = desc.weights_desc();
  return {std::make_unique<OneDnnPrimitive>(
              dnnl::convolution_backward_data(desc), desc.scratchpad_desc(),
              std::vector<OneDnnPrimitive::Argument>{{DNNL_ARG_DIFF_DST, types.y},
                                                     {DNNL_ARG_WEIGHTS, filter},
                                                     {DNNL_ARG_DIFF_SRC, types.x}}),
          filter};
}

void cpu_f32(KernelContext& ctx) {
  const Shape x = ctx.input(2).shape(), filter = ctx.input(1).shape();
  if (const auto pass = convolution_pass(ctx, x, filter, compile))
    run_with_filter(ctx, *pass, ctx.input(0));
}

void cpu_f64(KernelContext& ctx) {
  const Tensor &dy = ctx.input(0), &filter = ctx.input(1);
  const double *from = dy.data<double>(), *factors = filter.data<double>();
  sum_products(
      ctx, ctx.input(2).shape(), filter.shape(),
      [=](double* dx, int64_t ix, int64_t f, int64_t iy) { dx[ix] += from[iy] * factors[f]; });
}

}  // namespace

Op conv2d_input_gradient_op() {
  return {
      .name = "Conv2dInputGradient",
      .inputs = {"dy", "filter", "x_like"},
      .outputs = {"dx"},
      .attrs = convolution_attrs(),
      .infer_shapes = infer_shapes,
      .gradient = gradient,
      .kernels = {
          {.dtype = DType::f32, .run = cpu_f32, .prepare = prepare_convolution, .finishes = true},
          {.dtype = DType::f64, .run = cpu_f64, .prepare = prepare_convolution, .finishes = true}}};
}

Output conv2d_input_gradient(Output dy, Output filter, Output x_like, Conv2dOptions options,
                             Origin at) {
  return add_node({.op = "Conv2dInputGradient",
                   .inputs = {dy, filter, x_like},
                   .attrs = convolution_attrs(options)},
                  at);
}

}  // namespace troupe
