// Shared by pools and their gradients: the shape rule, sizes, and the positions of maxima.
//   x: [batch, ..., channels]   y: [batch, ..., channels]
// Images have one to three dimensions between the first and the last.
#pragma once

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "devices/threads/isa.hpp"
#include "ops/support/node.hpp"
#include "ops/images/window.hpp"
#include "troupe/ops.hpp"

namespace troupe {

std::vector<AttrSpec> pool_attrs();
Attrs pool_attrs(const PoolWindow& window);
std::vector<AttrSpec> average_pool_attrs();  // the pool attributes and count_padding
Attrs average_pool_attrs(const PoolWindow& window);
inline PoolWindow to_window(PoolOptions options) {
  return {.size = {options.window},
          .strides = {options.stride},
          .padding = options.same_padding ? Padding::same : Padding::valid};
}
PoolWindow pool_window(const Node& node);  // of a checked node

// For infer_shapes: y's shape. Throws: Error from ctx if something does not fit.
Shape pool_output(const InferContext& ctx, const Shape& x);
// infer_shapes for a pool of x, and for a gradient of dy and x.
std::vector<Shape> infer_pool(const InferContext& ctx);
std::vector<Shape> infer_pool_gradient(const InferContext& ctx);

struct PoolSizes {
  int64_t batch, channels;
  Slidings at;
  bool count_padding;

  PoolSizes(const Shape& x, const PoolWindow& window);
  int64_t x_image() const { return inputs_of(at) * channels; }  // in elements
  int64_t y_image() const { return outputs_of(at) * channels; }
};

// Keeps the attributes for the kernels.
struct PoolState final : KernelState {
  PoolWindow window;
  static std::unique_ptr<KernelState> make(const Node& node);
};
inline PoolSizes pool_sizes(const KernelContext& ctx, const Shape& x) {
  return PoolSizes(x, ctx.state<PoolState>().window);
}

// finishes: see Kernel::finishes.
template <class T>
constexpr Kernel pool_kernel(void (*run)(KernelContext&), bool finishes = false) {
  return {.dtype = dtype_of<T>, .run = run, .prepare = PoolState::make, .finishes = finishes};
}

// Calls f(first image, end image, scratch) in jobs of images; each job has `scratch` elements of
// scratch memory. A job has at least four images and takes about 20 us.
template <class T, class F>
void in_pooled_images(KernelContext& ctx, const PoolSizes& sizes, int64_t scratch, const F& f) {
  if (sizes.batch == 0 || sizes.channels == 0 || has_no_pixels(sizes.at)) return;
  const int64_t images =
      images_of_job(sizes.batch, static_cast<double>(sizes.x_image()), 4, 1 << 16);
  Tensor memory;
  if (scratch > 0)
    memory = ctx.scratch(DType::u8, Shape{(sizes.batch + images - 1) / images * scratch *
                                          static_cast<int64_t>(sizeof(T))});
  T* const at = memory.defined() ? static_cast<T*>(memory.mutable_raw()) : nullptr;
  in_images(ctx, sizes.batch, images, [&](int64_t first, int64_t last) {
    f(first, last, at ? at + first / images * scratch : nullptr);
  });
}

// Runs Loop::run(&sizes, arguments..., first, last) in jobs of images.
template <class Loop, class... Args>
void pool_images(KernelContext& ctx, const PoolSizes& sizes, Args... args) {
  in_pooled_images<char>(ctx, sizes, 0, [&](int64_t first, int64_t last, char*) {
    in_isa<Loop>(&sizes, args..., first, last);
  });
}

// ---- for loops, compiled for each instruction set ----

// The number of pixels in an average.
template <class T>
T pixels_of_mean(const PoolSizes& s, const Place& place) {
  if (!s.count_padding) return static_cast<T>(place.size());
  return static_cast<T>(s.at[0].window) * static_cast<T>(s.at[1].window) *
         static_cast<T>(s.at[2].window);
}

// The number of windows from w on that cover equally many pixels of a row, each shifted by one
// pixel: they are processed in one loop.
inline int64_t windows_alike(const Sliding& s, int64_t w) {
  if (s.stride != 1 || s.inside(w).size() < s.window) return 1;
  return std::min(s.output, s.input - s.window + s.before + 1) - w;
}

// Calls f(index sequence, numbers of that many pixels) for the pixels of a window in groups of
// nine, then four, then one. Loops over channels read the pixels of a group together, so that their
// values stay in registers.
template <class F>
void for_each_group(const Place& place, F f) {
  constexpr int kMost = 9;
  int64_t pixels[kMost];
  int n = 0, done = 0;
  place.for_each([&](int64_t pixel, auto...) {
    pixels[n++] = pixel;
    if (n < kMost) return;
    f(std::make_index_sequence<kMost>(), pixels);
    n = 0;
  });
  for (; done + 4 <= n; done += 4) f(std::make_index_sequence<4>(), pixels + done);
  for (; done < n; ++done) f(std::make_index_sequence<1>(), pixels + done);
}

constexpr int64_t kChannels = 256;  // maxima kept on the stack

// The greater of m and v; NaN if one is NaN.
template <class T>
T greater(T m, T v) {
  return ((v > m) | (v != v)) ? v : m;
}

// The maximum of each of n channels in a window. x: the first channel of the image's first pixel.
template <class T>
void find_maxima(const T* x, int64_t channels, int64_t n, const Place& place, T* maxima) {
  std::fill_n(maxima, n, -std::numeric_limits<T>::infinity());
  for_each_group(
      place, [=]<size_t... K>(std::index_sequence<K...>, const int64_t* pixels) {
        const T* const group[] = {x + pixels[K] * channels...};
        TROUPE_INDEPENDENT
        for (int64_t i = 0; i < n; ++i) {
          T m = maxima[i];
          ((m = greater(m, group[K][i])), ...);
          maxima[i] = m;
        }
      });
}

// True if a value is the maximum of its window. The caller uses the first such value.
template <class T>
bool is_maximum(T value, T maximum) {
  return (value == maximum) | (value != value);
}

}  // namespace troupe
