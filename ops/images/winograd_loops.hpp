// The loops of Winograd's minimal filtering, compiled for each instruction set: they transform
// patches, tiles and filters, and back. A polynomial of degree 5 is given by its values at 0, 1,
// -1, 2, -2 and infinity: B, A and G below are those of Lavin and Gray (2016), for both windows.
#pragma once

#include "ops/images/winograd.hpp"

namespace troupe::winograd {

using Grid = WinogradGrid;
inline constexpr int kSide = Grid::kSide, kPoints = Grid::kPoints;
inline constexpr int kChannels = 16;  // channels of one loop iteration: whole vectors
inline constexpr float kZeros[kChannels] = {};

using Line = const float* const (&)[kSide];  // vectors of channels
using OpenLine = float* const (&)[kSide];

// ---- one dimension ----

// Transforms a patch: B^T d.
inline void patch_line(Line d, OpenLine to) {
  TROUPE_INDEPENDENT
  for (int i = 0; i < kChannels; ++i) {
    const float d0 = d[0][i], d1 = d[1][i], d2 = d[2][i], d3 = d[3][i], d4 = d[4][i], d5 = d[5][i];
    const float even = d4 - 4 * d2, odd = d3 - 4 * d1, far = d4 - d2, near = 2 * (d3 - d1);
    to[0][i] = 4 * d0 - 5 * d2 + d4;
    to[1][i] = even + odd;
    to[2][i] = even - odd;
    to[3][i] = far + near;
    to[4][i] = far - near;
    to[5][i] = 4 * d1 - 5 * d3 + d5;
  }
}

// Transforms products to a tile: A^T p.
template <int kTile>
void tile_line(Line p, OpenLine to) {
  TROUPE_INDEPENDENT
  for (int i = 0; i < kChannels; ++i) {
    const float p0 = p[0][i], p1 = p[1][i], p2 = p[2][i], p3 = p[3][i], p4 = p[4][i], p5 = p[5][i];
    const float sum = p1 + p2, difference = p1 - p2, sum2 = p3 + p4, difference2 = p3 - p4;
    to[0][i] = p0 + sum + sum2;
    if constexpr (kTile == 4) {
      to[1][i] = difference + 2 * difference2;
      to[2][i] = sum + 4 * sum2;
      to[3][i] = difference + 8 * difference2 + p5;
    } else {
      to[1][i] = difference + 2 * difference2 + p5;
    }
  }
}

// The gradient of a tile: A y.
template <int kTile>
void slope_line(Line y, OpenLine to) {
  TROUPE_INDEPENDENT
  for (int i = 0; i < kChannels; ++i) {
    const float y0 = y[0][i], y1 = y[1][i];
    if constexpr (kTile == 4) {
      const float y2 = y[2][i], y3 = y[3][i];
      const float even = y0 + y2, odd = y1 + y3, even2 = y0 + 4 * y2, odd2 = 2 * y1 + 8 * y3;
      to[1][i] = even + odd;
      to[2][i] = even - odd;
      to[3][i] = even2 + odd2;
      to[4][i] = even2 - odd2;
      to[5][i] = y3;
    } else {
      to[1][i] = y0 + y1;
      to[2][i] = y0 - y1;
      to[3][i] = y0 + 2 * y1;
      to[4][i] = y0 - 2 * y1;
      to[5][i] = y1;
    }
    to[0][i] = y0;
  }
}

// Transforms a filter: G f. Row p of G has the powers of point p divided by the product of its
// distances to the other points.
template <int kWindow>
void filter_line(const float* const (&f)[kWindow], OpenLine to) {
  TROUPE_INDEPENDENT
  for (int i = 0; i < kChannels; ++i) {
    float even = f[0][i] + f[2][i], odd = f[1][i], even2 = f[0][i] + 4 * f[2][i],
          odd2 = 2 * f[1][i];
    if constexpr (kWindow == 5) {
      even += f[4][i];
      odd += f[3][i];
      even2 += 16 * f[4][i];
      odd2 += 8 * f[3][i];
    }
    to[0][i] = f[0][i] * (1.0f / 4);
    to[1][i] = (even + odd) * (-1.0f / 6);
    to[2][i] = (even - odd) * (-1.0f / 6);
    to[3][i] = (even2 + odd2) * (1.0f / 24);
    to[4][i] = (even2 - odd2) * (1.0f / 24);
    to[5][i] = f[kWindow - 1][i];
  }
}

// The gradient of a filter: G^T s.
template <int kWindow>
void filter_slope_line(Line s, float* const (&to)[kWindow]) {
  TROUPE_INDEPENDENT
  for (int i = 0; i < kChannels; ++i) {
    const float even = (s[1][i] + s[2][i]) * (-1.0f / 6), odd = (s[1][i] - s[2][i]) * (-1.0f / 6);
    const float even2 = (s[3][i] + s[4][i]) * (1.0f / 24), odd2 = (s[3][i] - s[4][i]) * (1.0f / 24);
    const float last = s[5][i];
    to[0][i] = s[0][i] * (1.0f / 4) + even + even2;
    to[1][i] = odd + 2 * odd2;
    if constexpr (kWindow == 3) {
      to[2][i] = even + 4 * even2 + last;
    } else {
      to[2][i] = even + 4 * even2;
      to[3][i] = odd + 8 * odd2;
      to[4][i] = even + 16 * even2 + last;
    }
  }
}

// ---- two dimensions ----

// Calls f(number in the block, image, first row, first column) for tiles [first, last).
template <class F>
void for_each_tile(const Grid& g, int64_t first, int64_t last, F f) {
  int64_t image = first / g.tiles(), row = first % g.tiles() / g.columns,
          column = first % g.columns;
  for (int64_t t = first; t < last; ++t) {
    f(t - first, image, row * g.tile, column * g.tile);
    if (++column < g.columns) continue;
    column = 0;
    if (++row < g.rows) continue;
    row = 0;
    ++image;
  }
}

// Transforms patches [first, last) of x to points[p][patch - first][channel]; consecutive p are
// `plane` apart.
struct PatchLoop {
  static void run(const Grid* grid, const float* x, float* points, int64_t plane, int64_t first,
                  int64_t last) {
    const Grid g = *grid;
    const int64_t channels = g.patched.channels;
    for_each_tile(g, first, last, [=](int64_t t, int64_t image, int64_t y, int64_t left) {
      y -= g.top;
      left -= g.left;
      const int64_t corner = image * g.patched.size() + (y * g.patched.width + left) * channels;
      const bool inside =
          y >= 0 && left >= 0 && y + kSide <= g.patched.height && left + kSide <= g.patched.width;
      const int64_t line = g.patched.width * channels;
      for (int64_t c = 0; c < channels; c += kChannels) {
        alignas(64) float half[kSide][kSide][kChannels];  // [point][column]
        const auto pixel = [&](int i, int j) {
          const bool there = inside || (y + i >= 0 && y + i < g.patched.height && left + j >= 0 &&
                                        left + j < g.patched.width);
          return there ? x + (corner + i * line + j * channels + c) : kZeros;
        };
        for (int j = 0; j < kSide; ++j)
          patch_line({pixel(0, j), pixel(1, j), pixel(2, j), pixel(3, j), pixel(4, j), pixel(5, j)},
                     {half[0][j], half[1][j], half[2][j], half[3][j], half[4][j], half[5][j]});
        float* to = points + t * channels + c;
        for (int i = 0; i < kSide; ++i, to += kSide * plane) {
          const auto& h = half[i];
          patch_line(
              {h[0], h[1], h[2], h[3], h[4], h[5]},
              {to, to + plane, to + 2 * plane, to + 3 * plane, to + 4 * plane, to + 5 * plane});
        }
      }
    });
  }
};

// Transforms products[p][tile - first][channel] to tiles [first, last) of y.
template <int kTile>
struct TileLoop {
  static void run(const Grid* grid, const float* products, float* y, int64_t plane, int64_t first,
                  int64_t last) {
    const Grid g = *grid;
    const int64_t channels = g.tiled.channels;
    for_each_tile(g, first, last, [=](int64_t t, int64_t image, int64_t top, int64_t left) {
      const int64_t line = g.tiled.width * channels;
      const auto rows = static_cast<int>(std::min<int64_t>(kTile, g.tiled.height - top));
      const auto columns = static_cast<int>(std::min<int64_t>(kTile, g.tiled.width - left));
      float* const corner = y + image * g.tiled.size() + top * line + left * channels;
      for (int64_t c = 0; c < channels; c += kChannels) {
        alignas(64) float half[kSide][kSide][kChannels];  // [row][point]
        const float* const from = products + t * channels + c;
        for (int j = 0; j < kSide; ++j) {
          const float* const p = from + j * plane;
          const int64_t next = kSide * plane;
          tile_line<kTile>({p, p + next, p + 2 * next, p + 3 * next, p + 4 * next, p + 5 * next},
                           {half[0][j], half[1][j], half[2][j], half[3][j]});
        }
        alignas(64) float out_of_it[kChannels];  // receives pixels outside of y
        for (int i = 0; i < rows; ++i) {
          const auto& h = half[i];
          float* const to = corner + i * line + c;
          const auto pixel = [&](int j) { return j < columns ? to + j * channels : out_of_it; };
          tile_line<kTile>({h[0], h[1], h[2], h[3], h[4], h[5]},
                           {pixel(0), pixel(1), pixel(2), pixel(3)});
        }
      }
    });
  }
};

// Transforms tiles [first, last) of dy to slopes[p][tile - first][channel].
template <int kTile>
struct SlopeLoop {
  static void run(const Grid* grid, const float* dy, float* slopes, int64_t plane, int64_t first,
                  int64_t last) {
    const Grid g = *grid;
    const int64_t channels = g.tiled.channels;
    for_each_tile(g, first, last, [=](int64_t t, int64_t image, int64_t top, int64_t left) {
      const int64_t line = g.tiled.width * channels;
      const float* const corner = dy + image * g.tiled.size() + top * line + left * channels;
      for (int64_t c = 0; c < channels; c += kChannels) {
        alignas(64) float half[kSide][kTile][kChannels];  // [point][column]
        const auto pixel = [&](int i, int j) {
          return i < kTile && top + i < g.tiled.height && left + j < g.tiled.width
                     ? corner + i * line + j * channels + c
                     : kZeros;
        };
        for (int j = 0; j < kTile; ++j)
          slope_line<kTile>(
              {pixel(0, j), pixel(1, j), pixel(2, j), pixel(3, j)},
              {half[0][j], half[1][j], half[2][j], half[3][j], half[4][j], half[5][j]});
        float* to = slopes + t * channels + c;
        for (int i = 0; i < kSide; ++i, to += kSide * plane) {
          const auto& h = half[i];
          slope_line<kTile>(
              {h[0], h[1], h[kTile - 2], h[kTile - 1]},
              {to, to + plane, to + 2 * plane, to + 3 * plane, to + 4 * plane, to + 5 * plane});
        }
      }
    });
  }
};

// Transforms window x window numbers, each a vector at(i, j), to points; the vectors are `step`
// apart.
template <int kWindow, class At>
void filter_points(const At& at, float* to, int64_t step) {
  alignas(64) float half[kSide][kWindow][kChannels];
  const auto line = [](const auto& v, OpenLine out) {
    if constexpr (kWindow == 3)
      filter_line<3>({v(0), v(1), v(2)}, out);
    else
      filter_line<5>({v(0), v(1), v(2), v(3), v(4)}, out);
  };
  for (int j = 0; j < kWindow; ++j)
    line([&](int i) { return at(i, j); },
         {half[0][j], half[1][j], half[2][j], half[3][j], half[4][j], half[5][j]});
  for (int p = 0; p < kSide; ++p, to += kSide * step)
    line([&](int j) -> const float* { return half[p][j]; },
         {to, to + step, to + 2 * step, to + 3 * step, to + 4 * step, to + 5 * step});
}

// Transforms the filter [window, window, in, out] to [p, in, out], for channels [first, first +
// kChannels) of out.
template <int kWindow>
struct FilterLoop {
  static void run(const float* filter, float* to, int64_t in, int64_t out, int64_t first) {
    for (int64_t c = 0; c < in; ++c) {
      const int64_t at = c * out + first;
      filter_points<kWindow>(
          [=](int i, int j) { return filter + (i * kWindow + j) * in * out + at; }, to + at,
          in * out);
    }
  }
};

// Transforms the reversed filter, to [p, out, in].
template <int kWindow>
struct TurnedFilterLoop {
  static void run(const float* filter, float* to, int64_t in, int64_t out, int64_t first) {
    constexpr int kTaps = kWindow * kWindow;
    for (int64_t c = 0; c < in; c += kChannels) {
      alignas(64) float taps[kTaps][kChannels][kChannels];  // [tap][out][in]
      for (int tap = 0; tap < kTaps; ++tap) {
        const float* const from = filter + ((kTaps - 1 - tap) * in + c) * out + first;
        for (int o = 0; o < kChannels; ++o)
          for (int i = 0; i < kChannels; ++i) taps[tap][o][i] = from[i * out + o];
      }
      for (int o = 0; o < kChannels; ++o)
        filter_points<kWindow>([&](int i, int j) { return &taps[i * kWindow + j][o][0]; },
                               to + (first + o) * in + c, in * out);
    }
  }
};

// The gradient of FilterLoop, G^T s G: from sums [p, in, out] to dfilter [window, window, in, out],
// both with `size` elements for a point and a tap.
template <int kWindow>
struct FilterSlopeLoop {
  static void run(const float* sums, float* dfilter, int64_t size) {
    for (int64_t at = 0; at < size; at += kChannels) {
      alignas(64) float half[kWindow][kSide][kChannels];  // [row of the window][point]
      const auto line = [](Line s, const auto& to) {
        if constexpr (kWindow == 3)
          filter_slope_line<3>(s, {to(0), to(1), to(2)});
        else
          filter_slope_line<5>(s, {to(0), to(1), to(2), to(3), to(4)});
      };
      for (int q = 0; q < kSide; ++q) {
        const float* const s = sums + q * size + at;
        const int64_t next = kSide * size;
        line({s, s + next, s + 2 * next, s + 3 * next, s + 4 * next, s + 5 * next},
             [&](int i) -> float* { return half[i][q]; });
      }
      for (int i = 0; i < kWindow; ++i) {
        const auto& h = half[i];
        line({h[0], h[1], h[2], h[3], h[4], h[5]},
             [&](int j) { return dfilter + (i * kWindow + j) * size + at; });
      }
    }
  }
};

}  // namespace troupe::winograd
