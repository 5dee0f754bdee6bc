// MaxPoolGradient: dx = dL/dx of y = max_pool(x), from dy = dL/dy: every dy goes to the first
// maximum of its window in row-major order; what meets there is summed in the order of y.
//   dy: [batch, ..., channels]   x, dx: [batch, ..., channels]
#include "ops/pools.hpp"

namespace troupe {
namespace {

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  require_kernel(ctx, ctx.dtype(0));
  require_pool_gradient(ctx, ctx.input(0), ctx.input(1));
  return {ctx.input(1)};
}

// Linear in dy. Writing ddx for dL/d(dx):  ddy = ddx where the maxima are. As a function of x it is
// constant in pieces.
std::vector<Output> gradient(const GradientContext& ctx) {
  return {max_pool_select(ctx.output_gradient(0), ctx.input(1), pool_window(ctx.node())), Output{}};
}

struct BackLoop {
  template <class T>
  static void run(const PoolSizes* s, const T* x, const T* dy, T* dx, int64_t first, int64_t last) {
    const int64_t channels = s->channels;
    for (int64_t b = first; b < last; ++b) {  // one by one, as a cache holds it
      std::fill_n(dx + b * s->x_image(), s->x_image(), T{0});
      for_each_place(s->at, b, b + 1, [=](int64_t out, const Place& place) {
        for (int64_t c = 0; c < channels; c += kChannels)
          add(x + c, dy + out * channels + c, dx + c, channels, std::min(kChannels, channels - c),
              place);
      });
    }
  }

 private:
  // Of n channels, whose first ones are given.
  template <class T>
  static void add(const T* x, const T* dy, T* dx, int64_t channels, int64_t n, const Place& place) {
    T maxima[kChannels], left[kChannels];  // left: of dy, for the first maximum that comes
    const bool is_one_group = place.size() == 9 || place.size() == 4 || place.size() == 1;
    if (!is_one_group) {
      find_maxima(x, channels, n, place, maxima);
      std::copy_n(dy, n, left);
    }
    for_each_group(
        place, [&]<size_t... K>(std::index_sequence<K...>, const int64_t* pixels) {
          const T* const values[] = {x + pixels[K] * channels...};
          T* const sums[] = {dx + pixels[K] * channels...};
          if (is_one_group) {
            TROUPE_INDEPENDENT
            for (int64_t i = 0; i < n; ++i) {
              T slope = dy[i], m = values[0][i];
              ((m = greater(m, values[K][i])), ...);
              (give(values[K][i], m, slope, sums[K][i]), ...);
            }
            return;
          }
          TROUPE_INDEPENDENT
          for (int64_t i = 0; i < n; ++i) {
            T slope = left[i];
            (give(values[K][i], maxima[i], slope, sums[K][i]), ...);
            left[i] = slope;
          }
        });
  }

  // What is left of a slope goes to a pixel that is the maximum.
  template <class T>
  static void give(T v, T maximum, T& slope, T& sum) {
    sum += is_maximum(v, maximum) ? slope : T{0};
    slope = is_maximum(v, maximum) ? T{0} : slope;
  }
};

template <class T>
void cpu(KernelContext& ctx) {
  check_actual_shapes(ctx);
  T* dx = ctx.output().template mutable_data<T>();
  const Tensor &dy = ctx.input(0), &x = ctx.input(1);
  pool_images<BackLoop>(ctx, pool_sizes(ctx, x.shape()), x.data<T>(), dy.data<T>(), dx);
}

}  // namespace

Op max_pool_gradient_op() {
  return {.name = "MaxPoolGradient",
          .inputs = {"dy", "x"},
          .outputs = {"dx"},
          .attrs = pool_attrs(),
          .infer_shapes = infer_shapes,
          .gradient = gradient,
          .kernels = {pool_kernel<float>(cpu<float>), pool_kernel<double>(cpu<double>)}};
}

Output max_pool_gradient(Output dy, Output x, PoolWindow window, Origin at) {
  return add_node({.op = "MaxPoolGradient", .inputs = {dy, x}, .attrs = pool_attrs(window)}, at);
}

Output max_pool2d_gradient(Output dy, Output x, PoolOptions options, Origin at) {
  return max_pool_gradient(dy, x, to_window(options), at);
}

}  // namespace troupe
