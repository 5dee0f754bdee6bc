// What max_pool2d, its gradient and max_pool2d_select share.
#include "ops/pooling.hpp"

#include <cstring>

namespace troupe {

std::vector<AttrSpec> pool_attrs() {
  return {{"window", AttrKind::integer, int64_t{2}},
          {"stride", AttrKind::integer, int64_t{2}},
          {"same_padding", AttrKind::boolean, false}};
}

Attrs pool_attrs(PoolOptions options) {
  return {{"window", options.window},
          {"stride", options.stride},
          {"same_padding", options.same_padding}};
}

PoolOptions pool_options(const Node& node) {
  return {.window = node.attr<int64_t>("window"),
          .stride = node.attr<int64_t>("stride"),
          .same_padding = node.attr<bool>("same_padding")};
}

Shape pool_output(const InferContext& ctx, const Shape& x) {
  const PoolOptions options = pool_options(ctx.node());
  if (options.window < 1 || options.stride < 1)
    throw ctx.error("wants a window and a stride of at least 1, got ", options.window, " and ",
                    options.stride);
  if (x.ndim() != 4) throw ctx.error("wants images [batch, height, width, channels], got ", x);
  Shape y = x;
  for (int d = 1; d <= 2; ++d) {
    if (!options.same_padding && x[d] >= 0 && options.window > x[d])
      throw ctx.error("the window ", options.window, " is larger than the images ", x,
                      "; use same_padding or a smaller window");
    y.set(d, slide(x[d], options.window, options.stride, options.same_padding).size);
  }
  return y;
}

PoolSizes::PoolSizes(const Shape& x, PoolOptions options)
    : batch(x[0]),
      height(x[1]),
      width(x[2]),
      channels(x[3]),
      window(options.window),
      stride(options.stride),
      down(slide(height, window, stride, options.same_padding)),
      across(slide(width, window, stride, options.same_padding)) {}

std::optional<PoolTypes> PoolTypes::of(const PoolSizes& s) {
  using dnnl::memory;
  constexpr int64_t kSizeMax = int64_t{1} << 30;
  if (s.batch == 0 || s.channels == 0 || s.down.size == 0 || s.across.size == 0) return {};
  for (const int64_t n : {s.batch, s.height, s.width, s.channels, s.window, s.stride})
    if (n > kSizeMax) return {};
  if (s.window > s.height + s.down.before || s.window > s.width + s.across.before) return {};
  const auto type = [](memory::dims dims) {
    return memory::desc(dims, memory::data_type::f32, memory::format_tag::nhwc);
  };
  return PoolTypes{type({s.batch, s.channels, s.height, s.width}),
                   type({s.batch, s.channels, s.down.size, s.across.size}),
                   {s.window, s.window},
                   {s.stride, s.stride},
                   {s.down.before, s.across.before},
                   {s.down.after, s.across.after}};
}

dnnl::pooling_forward::primitive_desc PoolTypes::forward(dnnl::prop_kind kind) const {
  return {{kind, dnnl::algorithm::pooling_max, x, y, strides, window, before, after},
          onednn_attr(),
          onednn_engine()};
}

dnnl::pooling_backward::primitive_desc PoolTypes::backward() const {
  return {{dnnl::algorithm::pooling_max, x, y, strides, window, before, after},
          onednn_attr(),
          onednn_engine(),
          forward(dnnl::prop_kind::forward_training)};
}

bool all_finite(const Tensor& x) {
  constexpr int32_t kExponent = 0x7f800000;
  const auto* bytes = static_cast<const char*>(x.raw());
  int32_t found = 0;
  for (int64_t i = 0, n = x.size(); i < n; ++i) {
    int32_t word = 0;
    std::memcpy(&word, bytes + i * 4, 4);
    found |= (word & kExponent) == kExponent ? 1 : 0;
  }
  return found == 0;
}

}  // namespace troupe
