// What max_pool2d, its gradient and max_pool2d_select share: shape rule, sizes, and where the
// maxima are.
//   x: [batch, height, width, channels]   y: [batch, height', width', channels]
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <type_traits>
#include <vector>

#include "ops/node.hpp"
#include "ops/onednn.hpp"
#include "ops/window.hpp"
#include "troupe/ops.hpp"

namespace troupe {

std::vector<AttrSpec> pool_attrs();
Attrs pool_attrs(PoolOptions options);
PoolOptions pool_options(const Node& node);

// For infer_shapes. Throws: Error from ctx naming what does not fit.
Shape pool_output(const InferContext& ctx, const Shape& x);

struct PoolSizes {
  int64_t batch, height, width, channels;
  int64_t window, stride;
  Sliding down, across;
  PoolSizes(const Shape& x, PoolOptions options);
};

// Calls f(index of y's channels, indices of the window's channels in x) for every output pixel;
// both in row-major order. Indices count elements. There is at least one pixel in a window.
template <class F>
void for_each_window(const PoolSizes& s, F f) {
  if (s.channels == 0) return;
  std::vector<int64_t> pixels;
  int64_t y = 0;
  for (int64_t b = 0; b < s.batch; ++b)
    for (int64_t oy = 0; oy < s.down.size; ++oy)
      for (int64_t ox = 0; ox < s.across.size; ++ox, y += s.channels) {
        const int64_t top = oy * s.stride - s.down.before, left = ox * s.stride - s.across.before;
        // Beyond the end without a sum that might overflow.
        const int64_t bottom = s.window < s.height - top ? top + s.window : s.height;
        const int64_t right = s.window < s.width - left ? left + s.window : s.width;
        pixels.clear();
        for (int64_t iy = std::max<int64_t>(top, 0); iy < bottom; ++iy)
          for (int64_t ix = std::max<int64_t>(left, 0); ix < right; ++ix)
            pixels.push_back(((b * s.height + iy) * s.width + ix) * s.channels);
        f(y, pixels);
      }
}

// For each channel, which pixel of a window has the maximum: NaN if there is one, the first of
// equals. A number is as wide as an element, so that the compiler can use vectors.
template <class T>
class FirstMaxima {
 public:
  using Number = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;

  explicit FirstMaxima(int64_t channels)
      : maxima_(static_cast<size_t>(channels)), numbers_(static_cast<size_t>(channels)) {}

  // Returns the number of a pixel for each channel.
  const Number* find(const T* x, const std::vector<int64_t>& pixels) {
    const size_t channels = maxima_.size();
    T* __restrict maxima = maxima_.data();
    Number* __restrict numbers = numbers_.data();
    std::copy_n(x + pixels[0], channels, maxima);
    std::fill_n(numbers, channels, Number{0});
    for (size_t k = 1; k < pixels.size(); ++k) {
      const T* __restrict pixel = x + pixels[k];
      const Number number = static_cast<Number>(k);
      for (size_t c = 0; c < channels; ++c) {
        const T v = pixel[c], m = maxima[c];
        const bool better = (v > m) | ((v != v) & (m == m));
        maxima[c] = better ? v : m;
        numbers[c] = better ? number : numbers[c];
      }
    }
    return numbers;
  }

 private:
  std::vector<T> maxima_;
  std::vector<Number> numbers_;
};

// The same in oneDNN's words, for f32: everything but where our own loops are needed. It keeps
// neither NaN nor infinities, and has no windows past its own integers.
struct PoolTypes {
  dnnl::memory::desc x, y;
  dnnl::memory::dims window, strides, before, after;
  // Nothing if that pool is not for oneDNN.
  static std::optional<PoolTypes> of(const PoolSizes& sizes);

  dnnl::pooling_forward::primitive_desc forward(dnnl::prop_kind kind) const;
  dnnl::pooling_backward::primitive_desc backward() const;
};
bool all_finite(const Tensor& x);  // f32

// What the f32 kernels keep, by the shape of x.
template <class Pass>
struct PoolState final : KernelState {
  ShapeCache<std::array<int64_t, 4>, Pass> passes;
  static std::unique_ptr<KernelState> make(const Node&) { return std::make_unique<PoolState>(); }

  // nullptr if x is for our own loops.
  std::shared_ptr<const Pass> find(const Tensor& x, PoolOptions options) const {
    const PoolSizes sizes(x.shape(), options);
    const std::optional<PoolTypes> types = PoolTypes::of(sizes);
    if (!types || !all_finite(x)) return nullptr;
    return passes.get({sizes.batch, sizes.height, sizes.width, sizes.channels},
                      [&] { return std::make_unique<Pass>(*types); });
  }
};

}  // namespace troupe
