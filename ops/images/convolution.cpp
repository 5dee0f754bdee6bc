// Convolution: y[b, i, o] = the sum over j and c of
//   x[b, i * stride - before + j * dilation, g * in / groups + c] * filter[j, c, o],
// where g is o's group and pixels outside of x count as 0. (A cross-correlation, as usual in the
// field.) i and j have one to three dimensions.
//   x: [batch, ..., in]   filter: [..., in / groups, out]   y: [batch, ..., out]
#include "ops/elementwise/composition.hpp"
#include "ops/gradients.hpp"
#include "ops/images/convolutions.hpp"
#include "ops/support/regroup.hpp"

namespace troupe {
namespace {

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  require_kernel(ctx, ctx.dtype(0));
  return {convolution_output(ctx, ctx.input(0), ctx.input(1))};
}

std::vector<Output> gradient(const GradientContext& ctx) {
  const Output x = ctx.input(0), filter = ctx.input(1), dy = ctx.output_gradient(0);
  const ConvolutionOptions options = convolution_options(ctx.node());
  return {convolution_input_gradient(dy, filter, x, options),
          convolution_filter_gradient(dy, x, filter, options)};
}

struct ForwardLoop {
  template <class T>
  static void run(const ConvolutionSizes* s, const T* x, const T* filter, T* y, int64_t first,
                  int64_t last) {
    const int64_t image = outputs_of(s->at) * s->out;
    std::fill(y + first * image, y + last * image, T{0});
    for_each_tap(*s, first, last, [=](int64_t ix, int64_t tap, int64_t iy) {
      for_each_product(*s, [=](int64_t c, int64_t f, int64_t o, int64_t n) {
        const T factor = x[ix + c];
        TROUPE_INDEPENDENT
        for (int64_t i = 0; i < n; ++i) y[iy + o + i] += factor * filter[tap + f + i];
      });
    });
  }
};

struct DepthwiseLoop {
  template <class T>
  static void run(const ConvolutionSizes* s, const T* x, const T* filter, T* y, int64_t first,
                  int64_t last) {
    for_each_depthwise_block(*s, first, last, [=](int64_t iy, auto width, auto taps) {
      T sums[kBlock] = {};
      taps([&](int64_t ix, int64_t f) {
        for (int i = 0; i < width; ++i) sums[i] += x[ix + i] * filter[f + i];
      });
      std::copy_n(sums, +width, y + iy);
    });
  }
};

template <class T>
void cpu(KernelContext& ctx) {
  check_actual_shapes(ctx);
  const auto sizes = convolution_sizes<T>(ctx, ctx.input(0).shape(), ctx.input(1).shape());
  if (!sizes) return;
  ctx.output();  // refuses images that no memory holds, whose number of elements would overflow
  compute_images<T, ForwardLoop, DepthwiseLoop>(ctx, *sizes, ConvolutionSizes::Pass::forward,
                                                outputs_of(sizes->at) * sizes->out);
}

// Checks a call of a function for images of `dims` dimensions.
void require_dims(const char* function, Origin at, Output x, Output filter, int dims) {
  require_defined(function, at, {x, filter});
  constexpr const char* kImages[] = {"[batch, width, channels]", "[batch, height, width, channels]",
                                     "[batch, depth, height, width, channels]"};
  if (x.shape().ndim() != dims + 2)
    throw refused(function, at, "wants images ", kImages[dims - 1], ", got ", x.shape());
}

}  // namespace

Op convolution_op() {
  return {.name = "Convolution",
          .inputs = {"x", "filter"},
          .outputs = {"y"},
          .attrs = convolution_attrs(),
          .infer_shapes = infer_shapes,
          .gradient = gradient,
          .kernels = {convolution_kernel<float>(cpu<float>, true),
                      convolution_kernel<double>(cpu<double>, true)},
          .flops = [](const Node&, const std::vector<Shape>& in,
                      const std::vector<Shape>& out) { return convolution_flops(out[0], in[1]); },
          .precision = Precision::low};
}

Output convolution(Output x, Output filter, ConvolutionOptions options, Origin at) {
  return add_node({.op = "Convolution", .inputs = {x, filter}, .attrs = convolution_attrs(options)},
                  at);
}

Output conv1d(Output x, Output filter, ConvolutionOptions options, Origin at) {
  require_dims("conv1d", at, x, filter, 1);
  return convolution(x, filter, std::move(options), at);
}

Output conv2d(Output x, Output filter, Conv2dOptions options, Origin at) {
  require_dims("conv2d", at, x, filter, 2);
  return convolution(x, filter, to_convolution(options), at);
}

Output conv3d(Output x, Output filter, ConvolutionOptions options, Origin at) {
  require_dims("conv3d", at, x, filter, 3);
  return convolution(x, filter, std::move(options), at);
}

// Each channel is its own group: filter [..., c, m] as [..., 1, c * m].
Output depthwise_convolution(Output x, Output filter, ConvolutionOptions options, Origin at) {
  require_defined("depthwise_convolution", at, {x, filter});
  const Shape &images = x.shape(), &f = filter.shape();
  if (images.ndim() < 3 || images.ndim() > 5 || f.ndim() != images.ndim())
    throw refused("depthwise_convolution", at, "wants images [batch, ..., c] with one to three ",
                  "dimensions between and a filter [..., c, m] with as many, got ", images, " and ",
                  f);
  const int64_t of_x = images[images.ndim() - 1], of_filter = f[f.ndim() - 2];
  const int64_t channels = of_x >= 0 ? of_x : of_filter;
  if (channels < 0 || !may_equal(of_x, of_filter))
    throw refused("depthwise_convolution", at, "wants the number of channels, the same in images ",
                  "and filter, known, got ", images, " and ", f);
  if (options.groups != 1)
    throw refused("depthwise_convolution", at, "has a group for each channel; leave groups 1, not ",
                  options.groups);
  options.groups = std::max<int64_t>(channels, 1);
  const auto scope = x.graph->scope({.origin = at});
  std::string window;
  for (int d = 0; d + 2 < f.ndim(); ++d) window += detail::concat("k", d, " ");
  return convolution(x, regroup(filter, window + "c m -> " + window + "1 (c m)"),
                     std::move(options), at);
}

}  // namespace troupe
