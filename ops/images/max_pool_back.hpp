// The loop of MaxPoolGradient over windows of any form, in two variants: for windows that share
// pixels, and for windows that do not. Each variant is compiled in its own file, because that takes
// seconds.
#pragma once

#include "ops/images/pool_pairs.hpp"

namespace troupe {

// kApart: windows share no pixel, so nothing is added up.
template <bool kApart>
struct MaxPoolBackLoop {
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
  // True if every pixel is in a window.
  static bool cover(const Slidings& at) {
    return std::all_of(at.begin(), at.end(), [](const Sliding& d) {
      return d.stride == d.window && d.start(d.output) >= d.input;
    });
  }

  // Handles n channels; the pointers are to the first one.
  template <class T>
  static void give(const T* x, const T* dy, T* dx, int64_t channels, int64_t n,
                   const Place& place) {
    T maxima[kChannels], left[kChannels];  // left: the dy not yet given to a first maximum
    const bool is_one_group = place.size() == 9 || place.size() == 4;
    if (!is_one_group) {
      find_maxima(x, channels, n, place, maxima);
      std::copy_n(dy, n, left);
    }
    for_each_group(
        place, [&]<size_t... K>(std::index_sequence<K...>, const int64_t* pixels) {
          const T* const values[] = {x + pixels[K] * channels...};
          T* const slopes[] = {dx + pixels[K] * channels...};
          if constexpr (sizeof...(K) > 1)
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

  // Gives the remaining slope to a pixel that is the maximum.
  template <class T>
  static void give(T v, T maximum, T& slope, T& to) {
    const T mine = is_maximum(v, maximum) ? slope : T{0};
    to = kApart ? mine : to + mine;
    slope = is_maximum(v, maximum) ? T{0} : slope;
  }
};

// dx of images [first, last): for windows that share pixels (max_pool_gradient_shared.cpp), and for
// windows that do not (max_pool_gradient_apart.cpp).
void max_pool_back_shared(const PoolSizes* s, const float* x, const float* dy, float* dx,
                          int64_t first, int64_t last);
void max_pool_back_shared(const PoolSizes* s, const double* x, const double* dy, double* dx,
                          int64_t first, int64_t last);
void max_pool_back_apart(const PoolSizes* s, const float* x, const float* dy, float* dx,
                         int64_t first, int64_t last);
void max_pool_back_apart(const PoolSizes* s, const double* x, const double* dy, double* dx,
                         int64_t first, int64_t last);

}  // namespace troupe
