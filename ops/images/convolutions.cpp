// The shape rules, sizes and oneDNN layouts of convolutions; documented in
// ops/images/convolutions.hpp.
#include "ops/images/convolutions.hpp"

#include "devices/kernel_call.hpp"
#include "ops/images/winograd.hpp"
#include "ops/reductions/sum_parts.hpp"
#include "ops/support/layout_counts.hpp"
#include "ops/support/narrow.hpp"

namespace troupe {
namespace {

// The hint in the error for a number of channels that does not fit, if it would fit with channels
// second in images or out channels first in filters, as in other libraries.
std::string order_hint(const Shape& x, const Shape& filter, int64_t groups) {
  const int last = x.ndim() - 1;
  const auto fits = [groups](int64_t in, int64_t of_group) {
    return in > 0 && in % groups == 0 && in / groups == of_group;
  };
  // True if the filter's pixels, in that other order, fit images whose height is dimension `first`.
  const auto within = [&](int first) {
    bool all = true;
    for (int d = 2; d <= last; ++d)
      all = all && (x[first + d - 2] < 0 || filter[d] <= x[first + d - 2]);
    return all;
  };
  if (!fits(x[1], filter[last - 1]) && !(fits(x[1], filter[1]) && within(2)) &&
      !(fits(x[last], filter[1]) && within(1)))
    return "";
  std::string images = "0", filters;
  for (int d = 2; d <= last; ++d) {
    images += detail::concat(", ", d);
    filters += detail::concat(d, ", ");
  }
  return detail::concat(
      "; channels are the last dimension of images here, and in and out channels the last two of "
      "filters: if these images have their channels second, give transpose(x, {",
      images, ", 1}), and if this filter has its out channels first, transpose(filter, {", filters,
      "1, 0})");
}

}  // namespace

std::vector<AttrSpec> convolution_attrs() {
  std::vector<AttrSpec> specs = {{"strides", AttrKind::integers, std::vector<int64_t>{}},
                                 {"dilations", AttrKind::integers, std::vector<int64_t>{}},
                                 {"groups", AttrKind::integer, int64_t{1}}};
  add_padding_attrs(specs, Padding::same);
  return specs;
}

Attrs convolution_attrs(const ConvolutionOptions& options) {
  Attrs attrs = {
      {"strides", options.strides}, {"dilations", options.dilations}, {"groups", options.groups}};
  add_padding_attrs(attrs, options.padding, options.before, options.after);
  return attrs;
}

ConvolutionOptions convolution_options(const Node& node) {
  return {.strides = node.attr<std::vector<int64_t>>("strides"),
          .dilations = node.attr<std::vector<int64_t>>("dilations"),
          .groups = node.attr<int64_t>("groups"),
          .padding = padding_of(node),
          .before = node.attr<std::vector<int64_t>>("front"),
          .after = node.attr<std::vector<int64_t>>("back")};
}

WindowSpec window_spec(const ConvolutionOptions& options) {
  return {.strides = options.strides,
          .dilations = options.dilations,
          .before = options.before,
          .after = options.after,
          .padding = options.padding};
}

ConvolutionOptions checked_convolution(const InferContext& ctx, const Shape& x,
                                       const Shape& filter) {
  padding_of(ctx);
  ConvolutionOptions options = convolution_options(ctx.node());
  const int dims = x.ndim() - 2;
  if (dims < 1 || dims > kSpatialMax)
    throw ctx.error("wants images [batch, width, channels], with height and depth before width if ",
                    "there are any, got ", x);
  if (filter.ndim() != x.ndim())
    throw ctx.error("wants a filter [", dims == 3 ? "depth, " : "", dims > 1 ? "height, " : "",
                    "width, in channels of a group, out channels] for images ", x, ", got ",
                    filter);
  check_windows(ctx, window_spec(options), dims);
  for (int d = 0; d < dims; ++d)
    if (filter[d] == 0) throw ctx.error("wants a filter of at least one pixel, got ", filter);
  const int64_t groups = options.groups, in = x[dims + 1], out = filter[dims + 1];
  if (groups < 1) throw ctx.error("wants groups of at least 1, got ", groups);
  if (in > 0 && in % groups != 0)
    throw ctx.error("cannot cut the ", in, " channels of images ", x, " into ", groups,
                    " groups of equal size");
  if (out > 0 && out % groups != 0)
    throw ctx.error("cannot cut the ", out, " channels out of the filter ", filter, " into ",
                    groups, " groups of equal size");
  if (in >= 0 && filter[dims] >= 0 && in / groups != filter[dims])
    throw ctx.error("the images have ", in, " channels", groups > 1 ? " in " : "",
                    groups > 1 ? std::to_string(groups) + " groups" : "", ", but the filter takes ",
                    filter[dims], groups > 1 ? " of a group" : "", ": ", x, " with ", filter,
                    order_hint(x, filter, groups));
  return options;
}

Shape convolution_output(const InferContext& ctx, const Shape& x, const Shape& filter) {
  const ConvolutionOptions options = checked_convolution(ctx, x, filter);
  const WindowSpec spec = window_spec(options);
  const int dims = x.ndim() - 2;
  Shape y = x;
  y.set(dims + 1, filter[dims + 1]);
  for (int d = 0; d < dims; ++d) {
    // With same padding, the window does not affect the size.
    y.set(d + 1, -1);
    if (x[d + 1] < 0 || (filter[d] < 0 && spec.padding != Padding::same)) continue;
    const Sliding s = slide(x[d + 1], std::max<int64_t>(filter[d], 1), spec, d);
    if (s.output < 0)
      throw ctx.error("the filter ", filter, s.dilation > 1 ? ", with its dilations," : "",
                      " is larger than the images ", x,
                      spec.padding == Padding::given ? " with their padding" : "",
                      "; use same padding or a smaller filter");
    y.set(d + 1, s.output);
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

ConvolutionSizes::ConvolutionSizes(const Shape& x, const Shape& filter,
                                   const ConvolutionOptions& options)
    : dims(x.ndim() - 2),
      batch(x[0]),
      in(x[dims + 1]),
      out(filter[dims + 1]),
      groups(options.groups) {
  const WindowSpec spec = window_spec(options);
  for (int d = 0; d < dims; ++d)
    at[static_cast<size_t>(kSpatialMax) - static_cast<size_t>(dims - d)] =
        slide(x[d + 1], filter[d], spec, d);
}

bool ConvolutionSizes::is_empty() const {
  return batch == 0 || in == 0 || out == 0 || has_no_pixels(at);
}

bool ConvolutionSizes::suits_onednn(Pass pass) const {
  if (is_depthwise()) {
    const bool dilated =
        std::any_of(at.begin(), at.end(), [](const Sliding& s) { return s.dilation > 1; });
    if (dims == 3 || (dilated && pass != Pass::forward) || (dims == 1 && pass == Pass::to_filter))
      return false;
  }
  constexpr int64_t kMost = int64_t{1} << 30;
  for (const Sliding& s : at)
    for (const int64_t n : {s.input, s.window, s.stride, s.dilation, s.before, s.after, s.output})
      if (n > kMost) return false;
  return std::max({batch, in, out}) <= kMost;
}

// A job has at least four images (eight for a large filter, whose partial sums cost as much as
// several images), and at least 2^21 multiplications, about 20 us. If the output images are large,
// it has fewer, so that they stay in the cache for the next kernel.
int64_t ConvolutionSizes::images(Pass pass) const {
  const double filter =
      static_cast<double>(taps()) * static_cast<double>(in_of_group()) * static_cast<double>(out);
  const double pixels = static_cast<double>(outputs_of(at));
  int64_t least = filter > 1 << 18 ? 8 : 4;
  if (pass != Pass::to_filter) {
    const double made = pass == Pass::forward
                            ? pixels * static_cast<double>(out)
                            : static_cast<double>(inputs_of(at)) * static_cast<double>(in);
    constexpr double kMadeMax = 1 << 17;  // elements; in f32 512 KiB, half of a second-level cache
    least = std::clamp<int64_t>(static_cast<int64_t>(kMadeMax / made), 1, 4);
  }
  return images_of_job(batch, filter * pixels, least, 1 << 21);
}

ConvolutionTypes::ConvolutionTypes(const ConvolutionSizes& s, dnnl::memory::data_type type) {
  using dnnl::memory;
  memory::dims x_dims{s.batch, s.in}, y_dims{s.batch, s.out};
  // oneDNN's order of dimensions is group, out, in, then the window's dimensions.
  memory::dims filter_dims{s.out_of_group(), s.in_of_group()}, filter_strides{1, s.out};
  if (s.groups > 1) {
    filter_dims.insert(filter_dims.begin(), s.groups);
    filter_strides.insert(filter_strides.begin(), s.out_of_group());
  }
  // Lines become images of height 1, which oneDNN computes faster.
  const int dims = std::max(s.dims, 2);
  const auto first = s.at.end() - dims;
  for (auto d = first; d != s.at.end(); ++d) {
    x_dims.push_back(d->input);
    y_dims.push_back(d->output);
    filter_dims.push_back(d->window);
    strides.push_back(d->stride);
    gaps.push_back(d->dilation - 1);
    before.push_back(d->before);
    after.push_back(d->after);
    int64_t step = s.in_of_group() * s.out;
    for (auto inner = d + 1; inner != s.at.end(); ++inner) step *= inner->window;
    filter_strides.push_back(step);
  }
  const memory::format_tag tag = dims == 3 ? memory::format_tag::ndhwc : memory::format_tag::nhwc;
  x = memory::desc(x_dims, type, tag);
  y = memory::desc(y_dims, type, tag);
  filter = memory::desc(filter_dims, type, filter_strides);
  any_filter = memory::desc(filter_dims, type, memory::format_tag::any);
  is_product = s.groups == 1 && std::all_of(s.at.begin(), s.at.end(), [](const Sliding& d) {
                 return d.window == 1 && d.stride == 1 && d.output == d.input;
               });
  pixels = s.batch * outputs_of(s.at);
  in = s.in;
  out = s.out;
}

namespace {

using Pass = ConvolutionSizes::Pass;
using dnnl::memory;

// One direction for some images, compiled, with the layout that oneDNN chose for the filter or its
// gradient.
struct CompiledConvolution {
  std::unique_ptr<OneDnnPrimitive> primitive;
  memory::desc filter;
};

// A convolution that is the product of two matrices, with the filter in our own layout.
CompiledConvolution compile_product(Pass pass, const ConvolutionTypes& types) {
  // a [rows, inner] * b [inner, columns]; a transposed one is stored in the other order.
  const bool to_input = pass == Pass::to_input, to_filter = pass == Pass::to_filter;
  const int64_t rows = to_filter ? types.in : types.pixels;
  const int64_t inner = to_filter ? types.pixels : to_input ? types.out : types.in;
  const int64_t columns = to_input ? types.in : types.out;
  const auto type = [](int64_t height, int64_t width, bool transposed) {
    return memory::desc({height, width}, memory::data_type::f32,
                        transposed ? memory::dims{1, height} : memory::dims{width, 1});
  };
  const auto a = type(rows, inner, to_filter), b = type(inner, columns, to_input);
  const auto c = type(rows, columns, false);
  const dnnl::matmul::primitive_desc desc({a, b, c}, onednn_attr(), onednn_engine());
  return {onednn_primitive(dnnl::matmul(desc), desc,
                           {{DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, b}, {DNNL_ARG_DST, c}}),
          types.filter};
}

// Compiles one direction for some images. Returns null if the type is bf16 and oneDNN has no code
// for it, for example with one channel. `filter`: the layout to use; null: the one that oneDNN
// chooses.
CompiledConvolution compile(Pass pass, const ConvolutionTypes& t, memory::data_type type,
                            const memory::desc* filter) {
  const bool may_fail = type != memory::data_type::f32;
  if (t.is_product && !may_fail) return compile_product(pass, t);
  const memory::desc own = filter ? *filter : t.any_filter;
  constexpr auto kDirect = dnnl::algorithm::convolution_direct;
  const dnnl::convolution_forward::primitive_desc forward(
      {dnnl::prop_kind::forward_training, kDirect, t.x, pass == Pass::forward ? own : t.any_filter,
       t.y, t.strides, t.gaps, t.before, t.after},
      onednn_attr(), onednn_engine(), may_fail);
  if (!forward) return {};
  if (pass == Pass::forward)
    return {
        onednn_primitive(
            dnnl::convolution_forward(forward), forward,
            {{DNNL_ARG_SRC, t.x}, {DNNL_ARG_WEIGHTS, forward.weights_desc()}, {DNNL_ARG_DST, t.y}}),
        forward.weights_desc()};
  if (pass == Pass::to_input) {
    const dnnl::convolution_backward_data::primitive_desc desc(
        {kDirect, t.x, own, t.y, t.strides, t.gaps, t.before, t.after}, onednn_attr(),
        onednn_engine(), forward, may_fail);
    if (!desc) return {};
    return {onednn_primitive(dnnl::convolution_backward_data(desc), desc,
                             {{DNNL_ARG_DIFF_DST, t.y},
                              {DNNL_ARG_WEIGHTS, desc.weights_desc()},
                              {DNNL_ARG_DIFF_SRC, t.x}}),
            desc.weights_desc()};
  }
  memory::desc sums = own;
  sums.data.data_type = dnnl_f32;  // layouts count elements, not bytes
  const dnnl::convolution_backward_weights::primitive_desc desc(
      {kDirect, t.x, sums, t.y, t.strides, t.gaps, t.before, t.after}, onednn_attr(),
      onednn_engine(), forward, may_fail);
  if (!desc) return {};
  return {onednn_primitive(dnnl::convolution_backward_weights(desc), desc,
                           {{DNNL_ARG_SRC, t.x},
                            {DNNL_ARG_DIFF_DST, t.y},
                            {DNNL_ARG_DIFF_WEIGHTS, desc.diff_weights_desc()}}),
          desc.diff_weights_desc()};
}

}  // namespace

std::unique_ptr<KernelState> ConvolutionState::make(const Node& node) {
  auto state = std::make_unique<ConvolutionState>();
  state->options = convolution_options(node);
  return state;
}

ConvolutionPass::ConvolutionPass(const ConvolutionSizes& sizes, ConvolutionSizes::Pass pass,
                                 memory::data_type type)
    : batch(sizes.batch), images(sizes.images(pass)) {
  ConvolutionSizes part = sizes;
  const auto compile_part = [&](int64_t n, const memory::desc* filter) {
    part.batch = n;
    CompiledConvolution out = compile(pass, ConvolutionTypes(part, type), type, filter);
    if (out.primitive)
      scratch_bytes = std::max(scratch_bytes, (out.primitive->scratch_bytes() + 63) / 64 * 64);
    return out;
  };
  CompiledConvolution compiled = compile_part(images, nullptr);
  job = std::move(compiled.primitive);
  if (!job) return;
  if (const int64_t left = batch % images; left > 0)
    rest = compile_part(left, &compiled.filter).primitive;
  TROUPE_CHECK(rest || batch % images == 0, "oneDNN has a pass over ", images,
               " images, but none over ", batch % images);
  const memory::desc ours = ConvolutionTypes(sizes, type).filter;
  reorder = pass == Pass::to_filter ? onednn_reorder(compiled.filter, ours)
                                    : onednn_reorder(ours, compiled.filter);
  filter_bytes = static_cast<int64_t>(compiled.filter.get_size());
}

void run_with_filter(KernelContext& ctx, const ConvolutionPass& pass) {
  const Tensor& images = ctx.input(0);
  const void* filter = ctx.input(1).raw();
  Tensor packed;
  if (pass.reorder) {
    packed = ctx.scratch(DType::u8, Shape{pass.filter_bytes});
    count_filter_reorder();
    pass.reorder->execute(ctx, {filter, packed.raw()});
    filter = packed.raw();
  }
  Tensor& output = ctx.output();
  const char* from = static_cast<const char*>(images.raw());
  char* to = static_cast<char*>(output.mutable_raw());
  const int64_t bytes_in = images.byte_size() / pass.batch;
  const int64_t bytes_out = output.byte_size() / pass.batch, image = output.size() / pass.batch;
  pass.run(
      ctx,
      [&](int64_t, int64_t first) {
        return std::array<const void*, 3>{from + first * bytes_in, filter, to + first * bytes_out};
      },
      [&](int64_t first, int64_t count) {
        KernelCall::of(ctx).finish(first * image, count * image);
      });
}

void run_to_filter(KernelContext& ctx, const ConvolutionPass& pass) {
  const Tensor &dy = ctx.input(0), &x = ctx.input(1);
  Tensor& dfilter = ctx.output();
  const bool is_f32 = dfilter.dtype() == DType::f32;
  // Each job has its own sum.
  const int64_t size = pass.filter_bytes / static_cast<int64_t>(sizeof(float));
  const bool straight = is_f32 && pass.jobs() == 1 && !pass.reorder;
  Tensor parts;
  if (!straight) parts = ctx.scratch(DType::f32, Shape{pass.jobs() * size});
  float* const sums = straight ? dfilter.mutable_data<float>() : parts.mutable_data<float>();
  const char *from = static_cast<const char*>(x.raw()),
             *slopes = static_cast<const char*>(dy.raw());
  const int64_t bytes_x = x.byte_size() / pass.batch, bytes_y = dy.byte_size() / pass.batch;
  pass.run(
      ctx,
      [&](int64_t job, int64_t first) {
        return std::array<const void*, 3>{from + first * bytes_x, slopes + first * bytes_y,
                                          sums + job * size};
      },
      [](int64_t, int64_t) {});
  if (straight) return;
  sum_parts(ctx, sums, pass.jobs(), size);
  if (pass.reorder) {
    count_filter_reorder();
    pass.reorder->execute(ctx, {sums, dfilter.raw()});
  } else if (is_f32) {
    std::copy_n(sums, dfilter.size(), dfilter.mutable_data<float>());
  } else {
    narrow(dfilter.dtype(), sums, dfilter.mutable_raw(), dfilter.size());
  }
}

bool run_with_filter(KernelContext& ctx, const ConvolutionSizes& sizes,
                     ConvolutionSizes::Pass kind) {
  const auto& state = ctx.state<ConvolutionState>();
  if (suits_winograd(sizes, kind)) {
    winograd_pass(state, sizes, kind)->run_with_filter(ctx);
    return true;
  }
  if (!sizes.suits_onednn(kind)) return false;
  run_with_filter(ctx, *state.pass(sizes, kind));
  return true;
}

int64_t convolution_flops(const Shape& y, const Shape& filter) {
  const int64_t out = filter[filter.ndim() - 1];
  return out == 0 ? 0 : 2 * (y.size() / out) * filter.size();
}

}  // namespace troupe
