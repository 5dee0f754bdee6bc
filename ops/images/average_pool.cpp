// AveragePool: y[b, i, c] = the mean of channel c of x over window i: over the pixels inside the
// image; with count_padding, over the whole window, with zeros as padding.
//   x: [batch, ..., channels]   y: [batch, ..., channels]
//
// AveragePoolGradient: dx = dL/dx of y = average_pool(x), from dy = dL/dy: every pixel of a window
// gets its share of dy; the shares of one pixel are summed in the order of y.
//   dy: [batch, ..., channels]   x_like, dx: [batch, ..., channels]
// Only the shape of x_like is read.
#include "ops/gradients.hpp"
#include "ops/images/pools.hpp"

namespace troupe {
namespace {

std::vector<Output> gradient(const GradientContext& ctx) {
  return {average_pool_gradient(ctx.output_gradient(0), ctx.input(0), pool_window(ctx.node()))};
}

struct MeanLoop {
  template <class T>
  static void run(const PoolSizes* s, const T* x, T* y, int64_t first, int64_t last) {
    const int64_t n = s->channels;
    for_each_place(s->at, first, last, [=](int64_t out, const Place& place) {
      const T count = pixels_of_mean<T>(*s, place);
      T* const means = y + out * n;
      std::fill_n(means, n, T{0});
      for_each_group(
          place, [=]<size_t... K>(std::index_sequence<K...>, const int64_t* pixels) {
            const T* const group[] = {x + pixels[K] * n...};
            TROUPE_INDEPENDENT
            for (int64_t c = 0; c < n; ++c) {
              T sum = means[c];
              ((sum += group[K][c]), ...);
              means[c] = sum;
            }
          });
      for (int64_t c = 0; c < n; ++c) means[c] /= count;
    });
  }
};

template <class T>
void cpu(KernelContext& ctx) {
  T* y = ctx.output().template mutable_data<T>();
  const Tensor& x = ctx.input(0);
  pool_images<MeanLoop>(ctx, pool_sizes(ctx, x.shape()), x.data<T>(), y);
}

// Linear in dy. Writing ddx for dL/d(dx):  ddy = average_pool(ddx).
std::vector<Output> gradient_of_gradient(const GradientContext& ctx) {
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
void cpu_gradient(KernelContext& ctx) {
  check_actual_shapes(ctx);
  T* dx = ctx.output().template mutable_data<T>();
  const PoolSizes sizes = pool_sizes(ctx, ctx.input(1).shape());
  pool_images<ShareLoop>(ctx, sizes, ctx.input(0).data<T>(), dx);
}

}  // namespace

Op average_pool_op() {
  return {.name = "AveragePool",
          .inputs = {"x"},
          .outputs = {"y"},
          .attrs = average_pool_attrs(),
          .infer_shapes = infer_pool,
          .gradient = gradient,
          .kernels = {pool_kernel<float>(cpu<float>), pool_kernel<double>(cpu<double>)}};
}

Output average_pool(Output x, PoolWindow window, Origin at) {
  return add_node({.op = "AveragePool", .inputs = {x}, .attrs = average_pool_attrs(window)}, at);
}

Op average_pool_gradient_op() {
  return {.name = "AveragePoolGradient",
          .inputs = {"dy", "x_like"},
          .outputs = {"dx"},
          .attrs = average_pool_attrs(),
          .infer_shapes = infer_pool_gradient,
          .gradient = gradient_of_gradient,
          .kernels = {pool_kernel<float>(cpu_gradient<float>),
                      pool_kernel<double>(cpu_gradient<double>)}};
}

Output average_pool_gradient(Output dy, Output x_like, PoolWindow window, Origin at) {
  return add_node(
      {.op = "AveragePoolGradient", .inputs = {dy, x_like}, .attrs = average_pool_attrs(window)},
      at);
}

}  // namespace troupe
