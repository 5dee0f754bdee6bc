// The shape rules and attributes shared by pools and their gradients.
#include "ops/images/pools.hpp"

namespace troupe {
namespace {

// Pools have no dilations. The default strides are the window's sizes.
WindowSpec window_spec(const PoolWindow& window) {
  return {.strides = window.strides.empty() ? window.size : window.strides,
          .dilations = {},
          .before = window.before,
          .after = window.after,
          .padding = window.padding};
}

int64_t window_size(const PoolWindow& window, int d) {
  return WindowSpec::of(window.size, static_cast<size_t>(d), 1);
}

// Throws: Error from ctx.
void check_pool(const InferContext& ctx, const PoolWindow& window, int dims) {
  if (window.size.empty() ||
      (window.size.size() > 1 && window.size.size() != static_cast<size_t>(dims)))
    throw ctx.error("wants one number or ", dims, " for the window, one for each dimension of the ",
                    "images, got ", window.size.size());
  for (const int64_t n : window.size)
    if (n < 1) throw ctx.error("wants a window of at least 1, got ", n);
  const WindowSpec spec = window_spec(window);
  check_windows(ctx, spec, dims);
  for (int d = 0; d < dims; ++d)
    for (const auto& list : {spec.before, spec.after}) {
      const int64_t n = WindowSpec::of(list, static_cast<size_t>(d), 0);
      if (n >= window_size(window, d))
        throw ctx.error("wants padding smaller than the window, ", window_size(window, d),
                        ", which would else see nothing but padding; got ", n);
    }
}

}  // namespace

std::vector<AttrSpec> pool_attrs() {
  std::vector<AttrSpec> specs = {{"window", AttrKind::integers, std::vector<int64_t>{2}},
                                 {"strides", AttrKind::integers, std::vector<int64_t>{}}};
  add_padding_attrs(specs, Padding::valid);
  return specs;
}

Attrs pool_attrs(const PoolWindow& window) {
  Attrs attrs = {{"window", window.size}, {"strides", window.strides}};
  add_padding_attrs(attrs, window.padding, window.before, window.after);
  return attrs;
}

std::vector<AttrSpec> average_pool_attrs() {
  std::vector<AttrSpec> specs = pool_attrs();
  specs.push_back({"count_padding", AttrKind::boolean, false});
  return specs;
}

Attrs average_pool_attrs(const PoolWindow& window) {
  Attrs attrs = pool_attrs(window);
  attrs.emplace("count_padding", window.count_padding);
  return attrs;
}

PoolWindow pool_window(const Node& node) {
  const auto counts = node.attrs.find("count_padding");  // average pools only
  return {.size = node.attr<std::vector<int64_t>>("window"),
          .strides = node.attr<std::vector<int64_t>>("strides"),
          .padding = padding_of(node),
          .before = node.attr<std::vector<int64_t>>("front"),
          .after = node.attr<std::vector<int64_t>>("back"),
          .count_padding = counts != node.attrs.end() && std::get<bool>(counts->second)};
}

Shape pool_output(const InferContext& ctx, const Shape& x) {
  padding_of(ctx);
  const PoolWindow window = pool_window(ctx.node());
  const int dims = x.ndim() - 2;
  if (dims < 1 || dims > kSpatialMax)
    throw ctx.error("wants images [batch, width, channels], with height and depth before width if ",
                    "there are any, got ", x);
  check_pool(ctx, window, dims);
  Shape y = x;
  for (int d = 0; d < dims; ++d) {
    if (x[d + 1] < 0) continue;
    const Sliding s = slide(x[d + 1], window_size(window, d), window_spec(window), d);
    if (s.output < 0 || (s.output > 0 && s.input == 0))
      throw ctx.error("the window ", s.window, " is larger than dimension ", d + 1, " of images ",
                      x, window.padding == Padding::given ? " with its padding" : "",
                      "; use same padding or a smaller window");
    y.set(d + 1, s.output);
  }
  return y;
}

std::vector<Shape> infer_pool(const InferContext& ctx) {
  require_kernel(ctx, ctx.dtype(0));
  return {pool_output(ctx, ctx.input(0))};
}

std::vector<Shape> infer_pool_gradient(const InferContext& ctx) {
  require_kernel(ctx, ctx.dtype(0));
  const Shape &dy = ctx.input(0), &x = ctx.input(1);
  const Shape y = pool_output(ctx, x);
  if (!may_equal(dy, y)) throw ctx.error("dy ", dy, " does not fit: images ", x, " give ", y);
  return {x};
}

PoolSizes::PoolSizes(const Shape& x, const PoolWindow& window)
    : batch(x[0]), channels(x[x.ndim() - 1]), count_padding(window.count_padding) {
  const WindowSpec spec = window_spec(window);
  const int dims = x.ndim() - 2;
  for (int d = 0; d < dims; ++d)
    at[static_cast<size_t>(kSpatialMax) - static_cast<size_t>(dims - d)] =
        slide(x[d + 1], window_size(window, d), spec, d);
}

std::unique_ptr<KernelState> PoolState::make(const Node& node) {
  auto state = std::make_unique<PoolState>();
  state->window = pool_window(node);
  return state;
}

}  // namespace troupe
