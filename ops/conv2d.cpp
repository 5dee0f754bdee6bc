// Conv2d: y[b, i, j, o] = the sum over p, q, c of
//   x[b, i * stride + p - top, j * stride + q - left, c] * filter[p, q, c, o];
// pixels outside of x count as 0. (A cross-correlation, as everywhere in the field.)
//   x: [batch, height, width, in]   filter: [height, width, in, out]
//   y: [batch, height', width', out]
// height' = ceil(height / stride) with same_padding, else floor((height - window) / stride) + 1.
#include "ops/convolution.hpp"

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

CompiledConvolution compile(const ConvolutionTypes& types) {
  const auto desc = types.forward();
  const auto filter = desc.weights_desc();
  return {std::make_unique<OneDnnPrimitive>(
              dnnl::convolution_forward(desc), desc.scratchpad_desc(),
              std::vector<OneDnnPrimitive::Argument>{
                  {DNNL_ARG_SRC, types.x}, {DNNL_ARG_WEIGHTS, filter}, {DNNL_ARG_DST, types.y}}),
          filter};
}

void cpu_f32(KernelContext& ctx) {
  const Tensor& x = ctx.input(0);
  if (const auto pass = convolution_pass(ctx, x.shape(), ctx.input(1).shape(), compile))
    run_with_filter(ctx, *pass, x);
}

void cpu_f64(KernelContext& ctx) {
  const Tensor &x = ctx.input(0), &filter = ctx.input(1);
  const double *from = x.data<double>(), *factors = filter.data<double>();
  sum_products(ctx, x.shape(), filter.shape(), [=](double* y, int64_t ix, int64_t f, int64_t iy) {
    y[iy] += from[ix] * factors[f];
  });
}

}  // namespace

Op conv2d_op() {
  return {
      .name = "Conv2d",
      .inputs = {"x", "filter"},
      .outputs = {"y"},
      .attrs = convolution_attrs(),
      .infer_shapes = infer_shapes,
      .gradient = gradient,
      .kernels = {
          {.dtype = DType::f32, .run = cpu_f32, .prepare = prepare_convolution, .finishes = true},
          {.dtype = DType::f64, .run = cpu_f64, .prepare = prepare_convolution, .finishes = true}}};
}

Output conv2d(Output x, Output filter, Conv2dOptions options, Origin at) {
  return add_node({.op = "Conv2d", .inputs = {x, filter}, .attrs = convolution_attrs(options)}, at);
}

}  // namespace troupe
