// What conv2d and its two gradients share.
#include "ops/convolution.hpp"

#include <cmath>

#include "devices/work.hpp"

namespace troupe {
namespace {

// At least four images, and at least 2^21 multiplications, about 20 us. The partial sums of a large
// filter cost as much as some images.
int64_t images_of_job(const ConvolutionSizes& s) {
  constexpr double kJobMin = 1 << 21;
  const int64_t filter = s.window_height * s.window_width * s.in * s.out;
  const double one = static_cast<double>(filter) * static_cast<double>(s.down.size) *
                     static_cast<double>(s.across.size);
  const int64_t least = filter > 1 << 18 ? 8 : 4;
  const int64_t images = one * static_cast<double>(least) >= kJobMin
                             ? least
                             : static_cast<int64_t>(std::ceil(kJobMin / one));
  return s.batch < 2 * images ? s.batch : images;
}

}  // namespace

std::vector<AttrSpec> convolution_attrs() {
  return {{"stride", AttrKind::integer, int64_t{1}}, {"same_padding", AttrKind::boolean, true}};
}

Attrs convolution_attrs(Conv2dOptions options) {
  return {{"stride", options.stride}, {"same_padding", options.same_padding}};
}

Conv2dOptions convolution_options(const Node& node) {
  return {.stride = node.attr<int64_t>("stride"), .same_padding = node.attr<bool>("same_padding")};
}

Shape convolution_output(const InferContext& ctx, const Shape& x, const Shape& filter) {
  const Conv2dOptions options = convolution_options(ctx.node());
  if (options.stride < 1) throw ctx.error("wants a stride of at least 1, got ", options.stride);
  if (x.ndim() != 4) throw ctx.error("wants images [batch, height, width, channels], got ", x);
  if (filter.ndim() != 4)
    throw ctx.error("wants a filter [height, width, in channels, out channels], got ", filter);
  if (filter[0] == 0 || filter[1] == 0)
    throw ctx.error("wants a filter of at least 1 x 1 pixels, got ", filter);
  if (x[3] >= 0 && filter[2] >= 0 && x[3] != filter[2])
    throw ctx.error("the images have ", x[3], " channels, but the filter takes ", filter[2], ": ",
                    x, " with ", filter);
  Shape y{x[0], -1, -1, filter[3]};
  for (int d = 1; d <= 2; ++d) {
    const int64_t window = filter[d - 1];
    if (!options.same_padding && x[d] >= 0 && window > x[d])
      throw ctx.error("the filter ", filter, " is larger than the images ", x,
                      "; use same_padding or a smaller filter");
    // With same padding the window does not matter.
    if (options.same_padding || window >= 0)
      y.set(d,
            slide(x[d], std::max<int64_t>(window, 1), options.stride, options.same_padding).size);
  }
  return y;
}

void require_convolution_gradient(const InferContext& ctx, const Shape& dy, const Shape& x,
                                  const Shape& filter) {
  const Shape y = convolution_output(ctx, x, filter);
  if (!may_equal(dy, y))
    throw ctx.error("dy ", dy, " does not fit: images ", x, " with the filter ", filter, " give ",
                    y);
}

ConvolutionSizes::ConvolutionSizes(const Shape& x, const Shape& filter, Conv2dOptions options)
    : batch(x[0]),
      height(x[1]),
      width(x[2]),
      in(x[3]),
      window_height(filter[0]),
      window_width(filter[1]),
      out(filter[3]),
      stride(options.stride),
      down(slide(height, window_height, stride, options.same_padding)),
      across(slide(width, window_width, stride, options.same_padding)) {}

bool ConvolutionSizes::is_empty() const {
  return batch == 0 || height == 0 || width == 0 || in == 0 || out == 0;
}

ConvolutionTypes::ConvolutionTypes(const ConvolutionSizes& s)
    : strides{s.stride, s.stride},
      before{s.down.before, s.across.before},
      after{s.down.after, s.across.after} {
  using dnnl::memory;
  const auto type = [](memory::dims dims, memory::format_tag format) {
    return memory::desc(dims, memory::data_type::f32, format);
  };
  const memory::dims filter_dims{s.out, s.in, s.window_height, s.window_width};  // oihw
  x = type({s.batch, s.in, s.height, s.width}, memory::format_tag::nhwc);
  y = type({s.batch, s.out, s.down.size, s.across.size}, memory::format_tag::nhwc);
  filter = type(filter_dims, memory::format_tag::hwio);
  any_filter = type(filter_dims, memory::format_tag::any);
}

dnnl::convolution_forward::primitive_desc ConvolutionTypes::forward() const {
  return {{dnnl::prop_kind::forward_training, dnnl::algorithm::convolution_direct, x, any_filter, y,
           strides, before, after},
          onednn_attr(),
          onednn_engine()};
}

std::unique_ptr<KernelState> prepare_convolution(const Node& node) {
  auto state = std::make_unique<ConvolutionState>();
  state->options = convolution_options(node);
  return state;
}

std::shared_ptr<const ConvolutionPass> convolution_pass(KernelContext& ctx, const Shape& x,
                                                        const Shape& filter,
                                                        CompileConvolution* compile) {
  check_actual_shapes(ctx);
  Tensor& output = ctx.output();
  const auto& state = ctx.state<ConvolutionState>();
  const ConvolutionSizes sizes(x, filter, state.options);
  if (!sizes.is_empty())
    return state.passes.get(sizes.key(),
                            [&] { return std::make_unique<ConvolutionPass>(sizes, compile); });
  std::fill_n(output.mutable_data<float>(), output.size(), 0.0f);
  ctx.finish(0, output.size());
  return nullptr;
}

ConvolutionPass::ConvolutionPass(const ConvolutionSizes& sizes, CompileConvolution* compile)
    : batch(sizes.batch), images(images_of_job(sizes)) {
  ConvolutionSizes part = sizes;
  const auto compile_part = [&](int64_t n, const dnnl::memory::desc* filter) {
    part.batch = n;
    ConvolutionTypes types(part);
    if (filter) types.any_filter = *filter;
    CompiledConvolution out = compile(types);
    scratch_bytes = std::max(scratch_bytes, (out.primitive->scratch_bytes() + 63) / 64 * 64);
    return out;
  };
  CompiledConvolution compiled = compile_part(images, nullptr);
  job = std::move(compiled.primitive);
  if (const int64_t left = batch % images; left > 0)
    rest = compile_part(left, &compiled.filter).primitive;
  const ConvolutionTypes types(sizes);
  pack = onednn_reorder(types.filter, compiled.filter);
  unpack = onednn_reorder(compiled.filter, types.filter);
  filter_bytes = static_cast<int64_t>(compiled.filter.get_size());
}

void run_with_filter(KernelContext& ctx, const ConvolutionPass& pass, const Tensor& images) {
  const void* filter = ctx.input(1).raw();
  Tensor packed;
  if (pass.pack) {
    packed = ctx.scratch(DType::u8, Shape{pass.filter_bytes});
    pass.pack->execute(ctx, {filter, packed.raw()});
    filter = packed.raw();
  }
  Tensor& output = ctx.output();
  const auto* from = images.data<float>();
  auto* to = output.mutable_data<float>();
  const int64_t image_in = images.size() / pass.batch, image_out = output.size() / pass.batch;
  pass.run(
      ctx,
      [&](int64_t, int64_t first) {
        return std::array<const void*, 3>{from + first * image_in, filter, to + first * image_out};
      },
      [&](int64_t first, int64_t count) { ctx.finish(first * image_out, count * image_out); });
}

namespace {

// A product and a sum for each element of y and each of its window; borders are counted as if they
// were whole. The gradients take as many.
int64_t flops(const Shape& y, const Shape& filter) {
  const int64_t out = filter[3];
  return out == 0 ? 0 : 2 * (y.size() / out) * filter.size();
}
using Shapes = std::vector<Shape>;
const FlopsOf forward("Conv2d", [](const Node&, const Shapes& in, const Shapes& out) {
  return flops(out[0], in[1]);
});
const FlopsOf to_filter("Conv2dFilterGradient",
                        [](const Node&, const Shapes& in, const Shapes& out) {
                          return flops(in[0], out[0]);
                        });
const FlopsOf to_input("Conv2dInputGradient", [](const Node&, const Shapes& in, const Shapes&) {
  return flops(in[0], in[1]);
});

}  // namespace

}  // namespace troupe
