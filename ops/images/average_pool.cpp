// AveragePool: y[b, i, c] = the mean of channel c of x over window i: over the pixels inside the
// image; with count_padding, over the whole window, with zeros as padding.
//   x: [batch, ..., channels]   y: [batch, ..., channels]
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

}  // namespace troupe
