// Shared by tile, repeat and their gradients: sizes, and a block that is written repeatedly.
#pragma once

#include <algorithm>
#include <cstring>

#include "troupe/op.hpp"

namespace troupe {

// size * times; -1 if `size` is unknown.
template <class Context>
int64_t repeated_size(const Context& ctx, int64_t size, int64_t times) {
  if (times < 0) throw ctx.error("repeats at least 0 times, not ", times);
  if (times == 0 || size < 0) return times == 0 ? 0 : -1;
  int64_t product = 0;
  if (__builtin_mul_overflow(size, times, &product))
    throw ctx.error("cannot repeat size ", size, " ", times, " times; it would be past 2^63");
  return product;
}

// The shape of a tile: x[d] * repeats[d] in each dimension d.
template <class Context>
Shape tiled_shape(const Context& ctx, const Shape& x) {
  const auto& repeats = ctx.template attr<std::vector<int64_t>>("repeats");
  if (repeats.size() != static_cast<size_t>(x.ndim()))
    throw ctx.error("wants one number of repeats for each of ", x.ndim(), " dimensions, got ",
                    repeats.size());
  Shape y = x;
  for (int d = 0; d < x.ndim(); ++d)
    y.set(d, repeated_size(ctx, x[d], repeats[static_cast<size_t>(d)]));
  return y;
}

// Repeats the first `bytes` of y until y holds `times` copies. Requires: times >= 1.
inline void repeat_block(char* y, int64_t bytes, int64_t times) {
  constexpr int64_t kChunk = 1 << 16;  // bytes of one copy, small enough for the nearest caches
  const int64_t total = bytes * times;
  for (int64_t chunk = bytes, done = bytes; done < total;) {
    const int64_t n = std::min(chunk, total - done);
    std::memcpy(y + done, y, static_cast<size_t>(n));
    done += n;
    if (chunk < kChunk) chunk = done;  // still a multiple of `bytes`
  }
}

}  // namespace troupe
