// MaxPoolGradient: dx = dL/dx of y = max_pool(x), from dy = dL/dy: every dy goes to the first
// maximum of its window in row-major order; what meets there is summed in the order of y.
//   dy: [batch, ..., channels]   x, dx: [batch, ..., channels]
#include "ops/pool_pairs.hpp"

namespace troupe {
namespace {

// Linear in dy. Writing ddx for dL/d(dx):  ddy = ddx where the maxima are. As a function of x it is
// constant in pieces.
std::vector<Output> gradient(const GradientContext& ctx) {
  return {max_pool_select(ctx.output_gradient(0), ctx.input(1), pool_window(ctx.node())), Output{}};
}

// kApart: windows share no pixel, so that nothing has to be added up.
template <bool kApart>
struct BackLoop {
  template <class T>
  static void run(const PoolSizes* s, const T* x, const T* dy, T* dx, int64_t first, int64_t last) {
    const int64_t channels = s->channels;
    if (!kApart || !cover(s->at))
      std::fill_n(dx + first * s->x_image(), (last - first) * s->x_image(), T{0});
    for_each_place(s->at, first, last, [=](int64_t out, const Place& place) {
      for (int64_t c = 0; c < channels; c += kChannels)
        give(x + c, dy + out * channels + c, dx + c, channels, std::min(kChannels, channels - c),
             place);
    });
  }

 private:
  // Every pixel is in a window.
  static bool cover(const Slidings& at) {
    return std::all_of(at.begin(), at.end(), [](const Sliding& d) {
      return d.stride == d.window && d.start(d.output) >= d.input;
    });
  }

  // Of n channels, whose first ones are given.
  template <class T>
  static void give(const T* x, const T* dy, T* dx, int64_t channels, int64_t n,
                   const Place& place) {
    T maxima[kChannels], left[kChannels];  // left: of dy, for the first maximum that comes
    const bool is_one_group = place.size() == 9 || place.size() == 4 || place.size() == 1;
    if (!is_one_group) {
      find_maxima(x, channels, n, place, maxima);
      std::copy_n(dy, n, left);
    }
    for_each_group(
        place, [&]<size_t... K>(std::index_sequence<K...>, const int64_t* pixels) {
          const T* const values[] = {x + pixels[K] * channels...};
          T* const slopes[] = {dx + pixels[K] * channels...};
          if (is_one_group) {
            TROUPE_INDEPENDENT
            for (int64_t i = 0; i < n; ++i) {
              T slope = dy[i], m = values[0][i];
              ((m = greater_of(m, values[K][i])), ...);
              (give(values[K][i], m, slope, slopes[K][i]), ...);
            }
            return;
          }
          TROUPE_INDEPENDENT
          for (int64_t i = 0; i < n; ++i) {
            T slope = left[i];
            (give(values[K][i], maxima[i], slope, slopes[K][i]), ...);
            left[i] = slope;
          }
        });
  }

  // What is left of a slope goes to a pixel that is the maximum.
  template <class T>
  static void give(T v, T maximum, T& slope, T& to) {
    const T mine = is_maximum(v, maximum) ? slope : T{0};
    to = kApart ? mine : to + mine;
    slope = is_maximum(v, maximum) ? T{0} : slope;
  }
};

template <class T>
void cpu(KernelContext& ctx) {
  check_actual_shapes(ctx);
  T* dx = ctx.output().template mutable_data<T>();
  const T *dy = ctx.input(0).data<T>(), *x = ctx.input(1).data<T>();
  const PoolSizes sizes = pool_sizes(ctx, ctx.input(1).shape());
  const int64_t size = sizes.x_image();
  const bool pairs = is_of_pairs(sizes);
  const bool apart = std::all_of(sizes.at.begin(), sizes.at.end(),
                                 [](const Sliding& d) { return d.stride >= d.window; });
  in_pooled_images<char>(ctx, sizes, 0, [&](int64_t first, int64_t last, char*) {
    for (int64_t b = first; b < last; ++b) {  // one by one, as a cache holds it
      if (pairs)
        in_isa<PairBackLoop>(&sizes, x, dy, dx, b, b + 1);
      else if (apart)
        in_isa<BackLoop<true>>(&sizes, x, dy, dx, b, b + 1);
      else
        in_isa<BackLoop<false>>(&sizes, x, dy, dx, b, b + 1);
      ctx.finish(b * size, size);
    }
  });
}

}  // namespace

Op max_pool_gradient_op() {
  return {
      .name = "MaxPoolGradient",
      .inputs = {"dy", "x"},
      .outputs = {"dx"},
      .attrs = pool_attrs(),
      .infer_shapes = infer_pool_gradient,
      .gradient = gradient,
      .kernels = {pool_kernel<float>(cpu<float>, true), pool_kernel<double>(cpu<double>, true)}};
}

Output max_pool_gradient(Output dy, Output x, PoolWindow window, Origin at) {
  return add_node({.op = "MaxPoolGradient", .inputs = {dy, x}, .attrs = pool_attrs(window)}, at);
}

Output max_pool2d_gradient(Output dy, Output x, PoolOptions options, Origin at) {
  return max_pool_gradient(dy, x, to_window(options), at);
}

}  // namespace troupe
