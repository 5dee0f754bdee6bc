// MaxPool: y[b, i, c] = the greatest x of channel c in window i; NaN if the window contains NaN.
// Padding is never the greatest.
//   x: [batch, ..., channels]   y: [batch, ..., channels]
#include "devices/kernel_call.hpp"
#include "ops/elementwise/composition.hpp"
#include "ops/gradients.hpp"
#include "ops/images/pool_pairs.hpp"

namespace troupe {
namespace {

std::vector<Output> gradient(const GradientContext& ctx) {
  return {max_pool_gradient(ctx.output_gradient(0), ctx.input(0), pool_window(ctx.node()))};
}

// to[i] = the greatest of from[i + k * step], k < count, and of to[i] itself if kMore.
template <bool kMore, int kCount, class T>
void raise(const T* from, int64_t step, T* to, int64_t n) {
  TROUPE_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) {
    T m = kMore ? to[i] : from[i];
    for (int k = kMore ? 0 : 1; k < kCount; ++k) m = greater(m, from[k * step + i]);
    to[i] = m;
  }
}

template <class T>
void find_greatest(const T* from, int64_t step, int64_t count, T* to, int64_t n) {
  int64_t done = std::min<int64_t>(count, 3);
  if (done == 1)
    raise<false, 1>(from, step, to, n);
  else if (done == 2)
    raise<false, 2>(from, step, to, n);
  else
    raise<false, 3>(from, step, to, n);
  for (; done + 2 <= count; done += 2) raise<true, 2>(from + done * step, step, to, n);
  if (done < count) raise<true, 1>(from + done * step, step, to, n);
}

// Takes the maximum over the rows of a window first, for whole rows of the image at once, then over
// its columns. `down`: room for one row.
struct MaxLoop {
  template <class T>
  static void run(const PoolSizes* s, const T* x, T* y, T* down, int64_t first, int64_t last) {
    const Sliding depth = s->at[0], height = s->at[1], width = s->at[2];
    const int64_t row = width.input * s->channels;
    y += first * s->y_image();
    for (int64_t b = first; b < last; ++b)
      for (int64_t d = 0; d < depth.output; ++d)
        for (int64_t h = 0; h < height.output; ++h, y += width.output * s->channels) {
          const Sliding::Range planes = depth.inside(d), rows = height.inside(h);
          const T* from =
              x + b * s->x_image() +
              ((depth.start(d) + planes.first) * height.input + height.start(h) + rows.first) * row;
          find_greatest(from, row, rows.size(), down, row);
          for (int64_t p = 1; p < planes.size(); ++p)
            for (int64_t r = 0; r < rows.size(); ++r)
              raise<true, 1>(from + (p * height.input + r) * row, row, down, row);
          find_across(width, s->channels, down, y);
        }
  }

 private:
  template <class T>
  static void find_across(const Sliding& width, int64_t channels, const T* row, T* y) {
    for (int64_t w = 0, n = 1; w < width.output; w += n) {
      const Sliding::Range in = width.inside(w);
      // Adjacent windows are one loop.
      n = windows_alike(width, w);
      find_greatest(row + (width.start(w) + in.first) * channels, channels, in.size(),
                    y + w * channels, n * channels);
    }
  }
};

template <class T>
void cpu(KernelContext& ctx) {
  T* y = ctx.output().template mutable_data<T>();
  const T* x = ctx.input(0).data<T>();
  const PoolSizes sizes = pool_sizes(ctx, ctx.input(0).shape());
  const bool pairs = is_of_pairs(sizes);
  const int64_t row = pairs ? 0 : sizes.at[2].input * sizes.channels;
  in_pooled_images<T>(ctx, sizes, row, [&](int64_t first, int64_t last, T* scratch) {
    if (pairs)
      in_isa<PairMaxLoop>(&sizes, x, y, first, last);
    else
      in_isa<MaxLoop>(&sizes, x, y, scratch, first, last);
    KernelCall::of(ctx).finish(first * sizes.y_image(), (last - first) * sizes.y_image());
  });
}

}  // namespace

Op max_pool_op() {
  return {
      .name = "MaxPool",
      .inputs = {"x"},
      .outputs = {"y"},
      .attrs = pool_attrs(),
      .infer_shapes = infer_pool,
      .gradient = gradient,
      .kernels = {pool_kernel<float>(cpu<float>, true), pool_kernel<double>(cpu<double>, true)}};
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
