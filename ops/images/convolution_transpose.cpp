// ConvolutionTranspose: y = convolution_input_gradient(x, filter) for images of y's size: x relates
// to y as the output of a convolution to its input.
//   x: [batch, ..., in]   filter: [..., out / groups, in]   y: [batch, ..., out]
// Each dimension grows from n to n * stride with same padding, otherwise to
//   (n - 1) * stride + (window - 1) * dilation + 1 + output_padding - before - after.
#include "ops/gradients.hpp"
#include "ops/images/convolutions.hpp"

namespace troupe {
namespace {

// The size of dimension d of y. Throws: Error from ctx.
int64_t grown(const InferContext& ctx, const ConvolutionOptions& options, int d, int64_t n,
              int64_t window, int64_t output_padding) {
  const Shape& x = ctx.input(0);
  const auto at = static_cast<size_t>(d);
  const WindowSpec spec = window_spec(options);
  const int64_t stride = WindowSpec::of(spec.strides, at, 1);
  const auto past = [&] {
    return ctx.error("dimension ", d + 1, " of images ", x, " would grow past 2^63");
  };
  int64_t size = 0, reach = 0;
  if (options.padding == Padding::same) {
    if (__builtin_mul_overflow(n, stride, &size)) throw past();
    return size;
  }
  if (n == 0)
    throw ctx.error("wants images of at least one pixel, got ", x, "; Padding::same takes others");
  if (__builtin_mul_overflow(n - 1, stride, &size) ||
      __builtin_mul_overflow(window - 1, WindowSpec::of(spec.dilations, at, 1), &reach) ||
      __builtin_add_overflow(size, reach, &size) ||
      __builtin_add_overflow(size, output_padding + 1, &size))
    throw past();
  const int64_t before = WindowSpec::of(spec.before, at, 0);
  const int64_t after = WindowSpec::of(spec.after, at, 0);
  if (before > size || after > size - before || before + after == size)
    throw ctx.error("dimension ", d + 1, " of images ", x, " grows to ", size,
                    ", which the padding ", before, " and ", after, " takes away");
  return size - before - after;
}

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  require_kernel(ctx, ctx.dtype(0));
  const Shape &x = ctx.input(0), &filter = ctx.input(1);
  const int dims = x.ndim() - 2;
  if (dims < 1 || dims > kSpatialMax || filter.ndim() != x.ndim())
    throw ctx.error("wants images [batch, ..., in] with one to three dimensions between and a ",
                    "filter [..., out channels of a group, in] with as many, got ", x, " and ",
                    filter);
  const int64_t groups = ctx.attr<int64_t>("groups"), of_group = filter[dims];
  if (!may_equal(x[dims + 1], filter[dims + 1]))
    throw ctx.error("the images have ", x[dims + 1], " channels, but the filter takes ",
                    filter[dims + 1], ": ", x, " with ", filter);
  // The convolution from y to x, without the sizes of its images.
  Shape y = x;
  for (int d = 1; d <= dims; ++d) y.set(d, -1);
  int64_t out = -1;
  if (of_group >= 0 && groups >= 1 && __builtin_mul_overflow(of_group, groups, &out))
    throw ctx.error(groups, " groups of ", of_group, " channels are past 2^63");
  y.set(dims + 1, out);
  const ConvolutionOptions options = checked_convolution(ctx, y, filter);
  const auto& more = ctx.attr<std::vector<int64_t>>("output_padding");
  const WindowSpec spec = window_spec(options);
  if (more.size() > 1 && more.size() != static_cast<size_t>(dims))
    throw ctx.error("wants one number or ", dims, " for output_padding, got ", more.size());
  if (!more.empty() && options.padding == Padding::same)
    throw ctx.error("wants output_padding with Padding::valid or given alone");
  for (int d = 0; d < dims; ++d) {
    const auto at = static_cast<size_t>(d);
    const int64_t extra = WindowSpec::of(more, at, 0), stride = WindowSpec::of(spec.strides, at, 1);
    if (extra < 0 || extra >= stride)
      throw ctx.error("wants output_padding of at least 0 and below the stride ", stride, ", got ",
                      extra);
    if (x[d + 1] >= 0 && (filter[d] >= 0 || options.padding == Padding::same))
      y.set(d + 1, grown(ctx, options, d, x[d + 1], filter[d], extra));
  }
  return {y};
}

// Writing dy for dL/dy:  dx = convolution(dy, filter)  and  dfilter = its filter gradient.
std::vector<Output> gradient(const GradientContext& ctx) {
  const Output x = ctx.input(0), filter = ctx.input(1), dy = ctx.output_gradient(0);
  const ConvolutionOptions options = convolution_options(ctx.node());
  return {convolution(dy, filter, options), convolution_filter_gradient(x, dy, filter, options)};
}

template <class T>
void cpu(KernelContext& ctx) {
  check_actual_shapes(ctx);
  convolve_back<T>(ctx, ctx.output().shape());
}

}  // namespace

Op convolution_transpose_op() {
  std::vector<AttrSpec> attrs = convolution_attrs();
  attrs.push_back({"output_padding", AttrKind::integers, std::vector<int64_t>{}});
  return {.name = "ConvolutionTranspose",
          .inputs = {"x", "filter"},
          .outputs = {"y"},
          .attrs = std::move(attrs),
          .infer_shapes = infer_shapes,
          .gradient = gradient,
          .kernels = {convolution_kernel<float>(cpu<float>, true),
                      convolution_kernel<double>(cpu<double>, true)},
          .flops = [](const Node&, const std::vector<Shape>& in,
                      const std::vector<Shape>&) { return convolution_flops(in[0], in[1]); },
          .precision = Precision::low};
}

Output convolution_transpose(Output x, Output filter, ConvolutionOptions options,
                             std::vector<int64_t> output_padding, Origin at) {
  Attrs attrs = convolution_attrs(options);
  attrs.emplace("output_padding", std::move(output_padding));
  return add_node({.op = "ConvolutionTranspose", .inputs = {x, filter}, .attrs = std::move(attrs)},
                  at);
}

}  // namespace troupe
