// Max pools with adjacent windows of two by two pixels, the usual ones: loops over rows of windows
// that keep a window's vectors of channels in registers. They give the same bits as the loops for
// any window.
//   x: [batch, ..., channels]   y: [batch, ..., channels]
#pragma once

#include "ops/images/pools.hpp"

namespace troupe {

constexpr int kPairChannels = 16;  // channels of one loop iteration: a constant number of vectors

// True if these loops handle the sizes. Odd rows and columns end with pixels in no window.
inline bool is_of_pairs(const PoolSizes& s) {
  const auto apart = [](const Sliding& d, int64_t size) {
    return d.window == size && d.stride == size && d.before == 0 && d.output * size <= d.input;
  };
  return apart(s.at[0], 1) && apart(s.at[1], 2) && apart(s.at[2], 2) &&
         s.channels % kPairChannels == 0;
}

// greater() as two selections, which gives shorter vector code in these loops, but not in others.
template <class T>
T greater_of(T m, T v) {
  const T most = v > m ? v : m;
  return v == v ? most : v;
}

// Calls f(first element of a window in x, in y) for all windows of images [first, last) and all
// blocks of channels.
template <class F>
void for_each_pair(const PoolSizes& s, int64_t first, int64_t last, F f) {
  const Sliding height = s.at[1], width = s.at[2];
  const int64_t channels = s.channels, row = width.input * channels, planes = s.at[0].output;
  for (int64_t plane = first * planes; plane < last * planes; ++plane)
    for (int64_t h = 0; h < height.output; ++h) {
      const int64_t from = (plane * height.input + 2 * h) * row;
      const int64_t to = (plane * height.output + h) * width.output * channels;
      for (int64_t w = 0; w < width.output; ++w)
        for (int64_t c = 0; c < channels; c += kPairChannels)
          f(from + 2 * w * channels + c, to + w * channels + c);
    }
}

// The greatest element: over the columns first, then across.
struct PairMaxLoop {
  template <class T>
  static void run(const PoolSizes* s, const T* x, T* y, int64_t first, int64_t last) {
    const int64_t next = s->channels, below = s->at[2].input * next;
    for_each_pair(*s, first, last, [=](int64_t from, int64_t at) {
      const T* const top = x + from;
      const T* const low = top + below;
      T* const to = y + at;
      TROUPE_INDEPENDENT
      for (int i = 0; i < kPairChannels; ++i)
        to[i] = greater_of(greater_of(top[i], low[i]), greater_of(top[next + i], low[next + i]));
    });
  }
};

// Gives dy to the first maximum in row-major order, and 0 to the other three pixels.
struct PairBackLoop {
  template <class T>
  static void run(const PoolSizes* s, const T* x, const T* dy, T* dx, int64_t first, int64_t last) {
    const int64_t next = s->channels, below = s->at[2].input * next;
    if (4 * outputs_of(s->at) < inputs_of(s->at))
      std::fill_n(dx + first * s->x_image(), (last - first) * s->x_image(), T{0});
    for_each_pair(*s, first, last, [=](int64_t from, int64_t at) {
      const T* const top = x + from;
      const T* const low = top + below;
      T* const to_top = dx + from;
      T* const to_low = to_top + below;
      const T* const slopes = dy + at;
      TROUPE_INDEPENDENT
      for (int i = 0; i < kPairChannels; ++i) {
        const T v0 = top[i], v1 = top[next + i], v2 = low[i], v3 = low[next + i];
        const T most = greater_of(greater_of(greater_of(v0, v1), v2), v3);
        T left = slopes[i];  // for the first maximum
        to_top[i] = is_maximum(v0, most) ? left : T{0};
        left = is_maximum(v0, most) ? T{0} : left;
        to_top[next + i] = is_maximum(v1, most) ? left : T{0};
        left = is_maximum(v1, most) ? T{0} : left;
        to_low[i] = is_maximum(v2, most) ? left : T{0};
        to_low[next + i] = is_maximum(v2, most) ? T{0} : left;
      }
    });
  }
};

}  // namespace troupe
