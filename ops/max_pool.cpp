// MaxPool: y[b, i, c] = the greatest x of channel c in window i; NaN if there is one. Padding never
// wins.
//   x: [batch, ..., channels]   y: [batch, ..., channels]
#include "ops/composition.hpp"
#include "ops/pools.hpp"

namespace troupe {
namespace {

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  require_kernel(ctx, ctx.dtype(0));
  return {pool_output(ctx, ctx.input(0))};
}

std::vector<Output> gradient(const GradientContext& ctx) {
  return {max_pool_gradient(ctx.output_gradient(0), ctx.input(0), pool_window(ctx.node()))};
}

struct MaxLoop {
  template <class T>
  static void run(const PoolSizes* s, const T* x, T* y, int64_t first, int64_t last) {
    for_each_place(s->at, first, last, [=](int64_t out, const Place& place) {
      find_maxima(x, s->channels, s->channels, place, y + out * s->channels);
    });
  }
};

template <class T>
void cpu(KernelContext& ctx) {
  T* y = ctx.output().template mutable_data<T>();
  const Tensor& x = ctx.input(0);
  pool_images<MaxLoop>(ctx, pool_sizes(ctx, x.shape()), x.data<T>(), y);
}

}  // namespace

Op max_pool_op() {
  return {.name = "MaxPool",
          .inputs = {"x"},
          .outputs = {"y"},
          .attrs = pool_attrs(),
          .infer_shapes = infer_shapes,
          .gradient = gradient,
          .kernels = {pool_kernel<float>(cpu<float>), pool_kernel<double>(cpu<double>)}};
}

Output max_pool(Output x, PoolWindow window, Origin at) {
  return add_node({.op = "MaxPool", .inputs = {x}, .attrs = pool_attrs(window)}, at);
}

Output max_pool2d(Output x, PoolOptions options, Origin at) {
  require_defined("max_pool2d", at, {x});
  if (x.shape().ndim() != 4)
    throw refused("max_pool2d", at, "wants images [batch, height, width, channels], got ",
                  x.shape());
  return max_pool(x, to_window(options), at);
}

}  // namespace troupe
