// Conv2dFilterGradient: dfilter = dL/dfilter of y = conv2d(x, filter), from dy = dL/dy.
//   dy: [batch, height', width', out]   x: [batch, height, width, in]
//   filter_like, dfilter: [height, width, in, out]
// Only the shape of filter_like is read.
#include "ops/convolution.hpp"
#include "ops/elementwise.hpp"

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

CompiledConvolution compile(const ConvolutionTypes& types) {
  const auto desc = types.backward<dnnl::convolution_backward_weights>();
  const auto dfilter = desc.diff_weights_desc();
  return {std::make_unique<OneDnnPrimitive>(
              dnnl::convolution_backward_weights(desc), desc.scratchpad_desc(),
              std::vector<OneDnnPrimitive::Argument>{{DNNL_ARG_SRC, types.x},
                                                     {DNNL_ARG_DIFF_DST, types.y},
                                                     {DNNL_ARG_DIFF_WEIGHTS, dfilter}}),
          dfilter};
}

// parts[0] += all others, as a tree: element for element, so any range of them is a job.
void sum_parts(const KernelContext& ctx, float* parts, int64_t count, int64_t size) {
  in_parts(ctx, size, [=](int64_t at, int64_t length) {
    for (int64_t step = 1; step < count; step *= 2)
      for (int64_t i = 0; i + step < count; i += 2 * step) {
        float* const sum = parts + i * size + at;
        zip_elements<Add, 1, 1>(static_cast<const float*>(sum),
                                static_cast<const float*>(sum + step * size), sum, length);
      }
  });
}

void cpu_f32(KernelContext& ctx) {
  const Tensor &dy = ctx.input(0), &x = ctx.input(1);
  const auto pass = convolution_pass(ctx, x.shape(), ctx.input(2).shape(), compile);
  if (!pass) return;
  Tensor& dfilter = ctx.output();
  // Each job's sum stands by itself.
  const int64_t size = pass->filter_bytes / static_cast<int64_t>(sizeof(float));
  const bool straight = pass->jobs() == 1 && !pass->unpack;
  Tensor parts;
  if (!straight) parts = ctx.scratch(DType::f32, Shape{pass->jobs() * size});
  float* const sums = straight ? dfilter.mutable_data<float>() : parts.mutable_data<float>();
  const float *from = x.data<float>(), *slopes = dy.data<float>();
  const int64_t image_x = x.size() / pass->batch, image_y = dy.size() / pass->batch;
  pass->run(
      ctx,
      [&](int64_t job, int64_t first) {
        return std::array<const void*, 3>{from + first * image_x, slopes + first * image_y,
                                          sums + job * size};
      },
      [](int64_t, int64_t) {});
  if (straight) return;
  sum_parts(ctx, sums, pass->jobs(), size);
  if (pass->unpack)
    pass->unpack->execute(ctx, {sums, dfilter.raw()});
  else
    std::copy_n(sums, dfilter.size(), dfilter.mutable_data<float>());
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
