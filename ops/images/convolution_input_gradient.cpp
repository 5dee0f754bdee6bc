// ConvolutionInputGradient: dx = dL/dx of y = convolution(x, filter), from dy = dL/dy.
//   dy: [batch, ..., out]   filter: [..., in / groups, out]   x_like, dx: [batch, ..., in]
// Only the shape of x_like is read.
#include "ops/gradients.hpp"
#include "ops/images/convolutions.hpp"

namespace troupe {
namespace {

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  require_kernel(ctx, ctx.dtype(0));
  require_convolution_gradient(ctx, ctx.input(0), ctx.input(2), ctx.input(1));
  return {ctx.input(2)};
}

// Linear in dy and in the filter. Writing ddx for dL/d(dx):  ddy = convolution(ddx, filter)  and
// dfilter = the filter gradient of that convolution for ddx.
std::vector<Output> gradient(const GradientContext& ctx) {
  const Output dy = ctx.input(0), filter = ctx.input(1), ddx = ctx.output_gradient(0);
  const ConvolutionOptions options = convolution_options(ctx.node());
  return {convolution(ddx, filter, options), convolution_filter_gradient(dy, ddx, filter, options),
          Output{}};
}

struct BackLoop {
  template <class T>
  static void run(const ConvolutionSizes* s, const T* dy, const T* filter, T* dx, int64_t first,
                  int64_t last) {
    const int64_t image = inputs_of(s->at) * s->in;
    std::fill(dx + first * image, dx + last * image, T{0});
    for_each_tap(*s, first, last, [=](int64_t ix, int64_t tap, int64_t iy) {
      for_each_product(*s, [=](int64_t c, int64_t f, int64_t o, int64_t n) {
        T sum = dx[ix + c];
        for (int64_t i = 0; i < n; ++i) sum += dy[iy + o + i] * filter[tap + f + i];
        dx[ix + c] = sum;
      });
    });
  }
};

struct DepthwiseLoop {
  template <class T>
  static void run(const ConvolutionSizes* s, const T* dy, const T* filter, T* dx, int64_t first,
                  int64_t last) {
    const int64_t image = inputs_of(s->at) * s->in;
    for (int64_t b = first; b < last; ++b) {  // one by one, so that each fits the cache
      std::fill_n(dx + b * image, image, T{0});
      for_each_depthwise_block(*s, b, b + 1, [=](int64_t iy, auto width, auto taps) {
        T slopes[kBlock];
        std::copy_n(dy + iy, +width, slopes);
        taps([&](int64_t ix, int64_t f) {
          T products[kBlock];
          for (int i = 0; i < width; ++i) products[i] = slopes[i] * filter[f + i];
          for (int i = 0; i < width; ++i) dx[ix + i] += products[i];
        });
      });
    }
  }
};

template <class T>
void cpu(KernelContext& ctx) {
  check_actual_shapes(ctx);
  convolve_back<T>(ctx, ctx.input(2).shape());
}

}  // namespace

template <class T>
void convolve_back(KernelContext& ctx, const Shape& x) {
  const auto sizes = convolution_sizes<T>(ctx, x, ctx.input(1).shape());
  if (!sizes) return;
  compute_images<T, BackLoop, DepthwiseLoop>(ctx, *sizes, ConvolutionSizes::Pass::to_input,
                                             inputs_of(sizes->at) * sizes->in);
}
template void convolve_back<float>(KernelContext& ctx, const Shape& x);
template void convolve_back<double>(KernelContext& ctx, const Shape& x);

Op convolution_input_gradient_op() {
  return {.name = "ConvolutionInputGradient",
          .inputs = {"dy", "filter", "x_like"},
          .outputs = {"dx"},
          .attrs = convolution_attrs(),
          .infer_shapes = infer_shapes,
          .gradient = gradient,
          .kernels = {convolution_kernel<float>(cpu<float>, true),
                      convolution_kernel<double>(cpu<double>, true)},
          .flops = [](const Node&, const std::vector<Shape>& in,
                      const std::vector<Shape>&) { return convolution_flops(in[0], in[1]); },
          .precision = Precision::low};
}

Output convolution_input_gradient(Output dy, Output filter, Output x_like,
                                  ConvolutionOptions options, Origin at) {
  return add_node({.op = "ConvolutionInputGradient",
                   .inputs = {dy, filter, x_like},
                   .attrs = convolution_attrs(options)},
                  at);
}

Output conv2d_input_gradient(Output dy, Output filter, Output x_like, Conv2dOptions options,
                             Origin at) {
  return convolution_input_gradient(dy, filter, x_like, to_convolution(options), at);
}

}  // namespace troupe
