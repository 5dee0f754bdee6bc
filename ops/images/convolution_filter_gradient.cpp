// ConvolutionFilterGradient: dfilter = dL/dfilter of y = convolution(x, filter), from dy = dL/dy.
//   dy: [batch, ..., out]   x: [batch, ..., in]   filter_like, dfilter: [..., in / groups, out]
// Only the shape of filter_like is read.
#include "ops/gradients.hpp"
#include "ops/images/convolutions.hpp"
#include "ops/support/layout_counts.hpp"
#include "ops/reductions/sum_parts.hpp"
#include "ops/images/winograd.hpp"

namespace troupe {
namespace {

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  require_kernel(ctx, ctx.dtype(0));
  require_convolution_gradient(ctx, ctx.input(0), ctx.input(1), ctx.input(2));
  return {ctx.input(2)};
}

// Linear in dy and in x. Writing ddf for dL/d(dfilter):  ddy = convolution(x, ddf)  and dx = the
// input gradient of that convolution with ddf.
std::vector<Output> gradient(const GradientContext& ctx) {
  const Output dy = ctx.input(0), x = ctx.input(1), ddf = ctx.output_gradient(0);
  const ConvolutionOptions options = convolution_options(ctx.node());
  return {convolution(x, ddf, options), convolution_input_gradient(dy, ddf, x, options), Output{}};
}

struct FilterLoop {
  template <class T>
  static void run(const ConvolutionSizes* s, const T* x, const T* dy, T* sums, int64_t first,
                  int64_t last) {
    for_each_tap(*s, first, last, [=](int64_t ix, int64_t tap, int64_t iy) {
      for_each_product(*s, [=](int64_t c, int64_t f, int64_t o, int64_t n) {
        const T factor = x[ix + c];
        TROUPE_INDEPENDENT
        for (int64_t i = 0; i < n; ++i) sums[tap + f + i] += factor * dy[iy + o + i];
      });
    });
  }
};

struct DepthwiseLoop {
  template <class T>
  static void run(const ConvolutionSizes* s, const T* x, const T* dy, T* sums, int64_t first,
                  int64_t last) {
    for_each_depthwise_block(*s, first, last, [=](int64_t iy, auto width, auto taps) {
      T slopes[kBlock];
      std::copy_n(dy + iy, +width, slopes);
      taps([&](int64_t ix, int64_t f) {
        T products[kBlock];
        for (int i = 0; i < width; ++i) products[i] = x[ix + i] * slopes[i];
        for (int i = 0; i < width; ++i) sums[f + i] += products[i];
      });
    });
  }
};

// Our own loops, also with one sum for each job.
template <class T>
void run_loops(KernelContext& ctx, const ConvolutionSizes& s) {
  const T *dy = ctx.input(0).data<T>(), *x = ctx.input(1).data<T>();
  Tensor& dfilter = ctx.output();
  const int64_t images = s.images(ConvolutionSizes::Pass::to_filter),
                jobs = (s.batch + images - 1) / images, size = dfilter.size();
  Tensor parts;
  if (jobs > 1) parts = ctx.scratch(dtype_of<T>, Shape{jobs * size});
  T* const sums = (jobs > 1 ? parts : dfilter).template mutable_data<T>();
  in_images(ctx, s.batch, images, [&](int64_t first, int64_t last) {
    T* const sum = sums + first / images * size;
    std::fill_n(sum, size, T{0});
    if (s.is_depthwise())
      in_isa<DepthwiseLoop>(&s, x, dy, sum, first, last);
    else
      in_isa<FilterLoop>(&s, x, dy, sum, first, last);
  });
  if (jobs == 1) return;
  sum_parts(ctx, sums, jobs, size);
  std::copy_n(sums, size, dfilter.mutable_data<T>());
}

template <class T>
void cpu(KernelContext& ctx) {
  check_actual_shapes(ctx);
  const auto sizes = convolution_sizes<T>(ctx, ctx.input(1).shape(), ctx.input(2).shape());
  if (!sizes) return;
  constexpr auto kKind = ConvolutionSizes::Pass::to_filter;
  const auto& state = ctx.state<ConvolutionState>();
  if (sizeof(T) == sizeof(float) && suits_winograd(*sizes, kKind))
    winograd_pass(state, *sizes, kKind)->run_to_filter(ctx);
  else if (sizeof(T) == sizeof(float) && sizes->suits_onednn(kKind))
    run_to_filter(ctx, *state.pass(*sizes, kKind));
  else
    run_loops<T>(ctx, *sizes);
}

}  // namespace

Op convolution_filter_gradient_op() {
  return {.name = "ConvolutionFilterGradient",
          .inputs = {"dy", "x", "filter_like"},
          .outputs = {"dfilter"},
          .attrs = convolution_attrs(),
          .infer_shapes = infer_shapes,
          .gradient = gradient,
          .kernels = {convolution_kernel<float>(cpu<float>, false),
                      convolution_kernel<double>(cpu<double>, false)},
          .flops = [](const Node&, const std::vector<Shape>& in,
                      const std::vector<Shape>& out) { return convolution_flops(in[0], out[0]); },
          .precision = Precision::low};
}

Output convolution_filter_gradient(Output dy, Output x, Output filter_like,
                                   ConvolutionOptions options, Origin at) {
  return add_node({.op = "ConvolutionFilterGradient",
                   .inputs = {dy, x, filter_like},
                   .attrs = convolution_attrs(options)},
                  at);
}

Output conv2d_filter_gradient(Output dy, Output x, Output filter_like, Conv2dOptions options,
                              Origin at) {
  return convolution_filter_gradient(dy, x, filter_like, to_convolution(options), at);
}

}  // namespace troupe
