// What max_pool2d, its gradient and max_pool2d_select share: shape rule, sizes, and where the
// maxima are.
//   x: [batch, height, width, channels]   y: [batch, height', width', channels]
#pragma once

#include <vector>

#include "ops/node.hpp"
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

// Calls f(index of y's channels, maxima, places) for every output pixel in row-major order.
// maxima[c] is the greatest x of channel c in the window, NaN if there is one; places[c] is the
// index in x of the first element that has it. Indices count elements.
template <class T, class F>
void for_each_maximum(const PoolSizes& s, const T* x, F f) {
  std::vector<T> maxima(static_cast<size_t>(s.channels));
  std::vector<int64_t> places(static_cast<size_t>(s.channels));
  int64_t y = 0;
  for (int64_t b = 0; b < s.batch; ++b)
    for (int64_t oy = 0; oy < s.down.size; ++oy)
      for (int64_t ox = 0; ox < s.across.size; ++ox, y += s.channels) {
        const int64_t top = oy * s.stride - s.down.before, left = ox * s.stride - s.across.before;
        bool first = true;
        for (int64_t iy = std::max<int64_t>(top, 0); iy < std::min(top + s.window, s.height); ++iy)
          for (int64_t ix = std::max<int64_t>(left, 0); ix < std::min(left + s.window, s.width);
               ++ix) {
            const int64_t at = ((b * s.height + iy) * s.width + ix) * s.channels;
            for (int64_t c = 0; c < s.channels; ++c) {
              const size_t i = static_cast<size_t>(c);
              const T v = x[at + c];
              const bool better = first || v > maxima[i] || (v != v && maxima[i] == maxima[i]);
              maxima[i] = better ? v : maxima[i];
              places[i] = better ? at + c : places[i];
            }
            first = false;
          }
        f(y, maxima.data(), places.data());
      }
}

}  // namespace troupe
