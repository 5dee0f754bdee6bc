// The loops of a batch norm over NHWC images with a multiple of 16 channels, for one chunk of the
// batch at a time. Pointers are aligned to 64 bytes.
#pragma once

#include <cstdint>

namespace onednn_loops {

typedef float Vector __attribute__((vector_size(64)));  // 16 channels of a pixel

// Sums over the pixels, four at a time, so that additions do not depend on each other.
template <class F>
Vector sum_of(int64_t pixels, int64_t vectors, F term) {
  Vector a{}, b{}, c{}, d{};
  int64_t i = 0;
  for (; i + 4 <= pixels; i += 4) {
    a += term(i * vectors);
    b += term((i + 1) * vectors);
    c += term((i + 2) * vectors);
    d += term((i + 3) * vectors);
  }
  for (; i < pixels; ++i) a += term(i * vectors);
  return (a + b) + (c + d);
}

inline Vector positive(Vector x) {
  const Vector zero{};
  return x > zero ? x : zero;
}
// g where y is above 0, otherwise 0.
inline Vector masked(Vector g, Vector y) {
  const Vector zero{};
  return y > zero ? g : zero;
}

// mean [c] of the chunk, and m2 [c]: the sum of squared differences from it.
inline void chunk_moments(const float* z, int64_t pixels, int64_t c, float* mean, float* m2) {
  const int64_t vectors = c / 16;
  for (int64_t v = 0; v < vectors; ++v) {
    const auto* at = reinterpret_cast<const Vector*>(z) + v;
    const Vector middle =
        sum_of(pixels, vectors, [=](int64_t i) { return at[i]; }) / static_cast<float>(pixels);
    reinterpret_cast<Vector*>(mean)[v] = middle;
    reinterpret_cast<Vector*>(m2)[v] = sum_of(pixels, vectors, [=](int64_t i) {
      const Vector d = at[i] - middle;
      return d * d;
    });
  }
}

// Sums of g and of g * (z - mean) over the chunk, [c] each.
inline void chunk_gradient_sums(const float* g, const float* z, const float* mean, int64_t pixels,
                                int64_t c, float* sum, float* product) {
  const int64_t vectors = c / 16;
  for (int64_t v = 0; v < vectors; ++v) {
    const auto* at_g = reinterpret_cast<const Vector*>(g) + v;
    const auto* at_z = reinterpret_cast<const Vector*>(z) + v;
    const Vector middle = reinterpret_cast<const Vector*>(mean)[v];
    reinterpret_cast<Vector*>(sum)[v] = sum_of(pixels, vectors, [=](int64_t i) { return at_g[i]; });
    reinterpret_cast<Vector*>(product)[v] =
        sum_of(pixels, vectors, [=](int64_t i) { return at_g[i] * (at_z[i] - middle); });
  }
}

// Calls f(index of a vector, its channel vector) for the whole chunk.
template <class F>
void for_each_vector(int64_t pixels, int64_t c, F f) {
  const int64_t vectors = c / 16;
  for (int64_t i = 0; i < pixels; ++i)
    for (int64_t v = 0; v < vectors; ++v) f(i * vectors + v, v);
}

}  // namespace onednn_loops
