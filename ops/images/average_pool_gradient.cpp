// AveragePoolGradient: dx = dL/dx of y = average_pool(x), from dy = dL/dy: every pixel of a window
// gets its share of dy; the shares of one pixel are summed in the order of y.
//   dy: [batch, ..., channels]   x_like, dx: [batch, ..., channels]
// Only the shape of x_like is read.
#include "ops/gradients.hpp"
#include "ops/images/pools.hpp"

namespace troupe {
namespace {

// Linear in dy. Writing ddx for dL/d(dx):  ddy = average_pool(ddx).
std::vector<Output> gradient(const GradientContext& ctx) {
  return {average_pool(ctx.output_gradient(0), pool_window(ctx.node())), Output{}};
}

struct ShareLoop {
  template <class T>
  static void run(const PoolSizes* s, const T* dy, T* dx, int64_t first, int64_t last) {
    const int64_t n = s->channels;
    for (int64_t b = first; b < last; ++b) {  // one by one, so that each fits the cache
      std::fill_n(dx + b * s->x_image(), s->x_image(), T{0});
      for_each_place(s->at, b, b + 1, [=](int64_t out, const Place& place) {
        const T count = pixels_of_mean<T>(*s, place);
        const T* const slopes = dy + out * n;
        for_each_group(
            place, [=]<size_t... K>(std::index_sequence<K...>, const int64_t* pixels) {
              T* const sums[] = {dx + pixels[K] * n...};
              TROUPE_INDEPENDENT
              for (int64_t c = 0; c < n; ++c) {
                const T share = slopes[c] / count;
                ((sums[K][c] += share), ...);
              }
            });
      });
    }
  }
};

template <class T>
void cpu(KernelContext& ctx) {
  check_actual_shapes(ctx);
  T* dx = ctx.output().template mutable_data<T>();
  const PoolSizes sizes = pool_sizes(ctx, ctx.input(1).shape());
  pool_images<ShareLoop>(ctx, sizes, ctx.input(0).data<T>(), dx);
}

}  // namespace

Op average_pool_gradient_op() {
  return {.name = "AveragePoolGradient",
          .inputs = {"dy", "x_like"},
          .outputs = {"dx"},
          .attrs = average_pool_attrs(),
          .infer_shapes = infer_pool_gradient,
          .gradient = gradient,
          .kernels = {pool_kernel<float>(cpu<float>), pool_kernel<double>(cpu<double>)}};
}

Output average_pool_gradient(Output dy, Output x_like, PoolWindow window, Origin at) {
  return add_node(
      {.op = "AveragePoolGradient", .inputs = {dy, x_like}, .attrs = average_pool_attrs(window)},
      at);
}

}  // namespace troupe
