// What max_pool2d, its gradient and max_pool2d_select share.
#include "ops/pooling.hpp"

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

}  // namespace troupe
