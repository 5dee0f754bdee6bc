// Shared by batch_norm, its gradient and batch_norm_inference: vector loops over channels.
#pragma once

#include <cstring>
#include <type_traits>

#include "devices/kernel_call.hpp"
#include "ops/nn/norm.hpp"

namespace troupe {

// The number of rows of x [..., c]; 0 if x has no elements.
inline int64_t rows_of(const Shape& x) { return x.size() > 0 ? x.size() / x[x.ndim() - 1] : 0; }

// The number of channels in one AVX-512 register; narrower instruction sets use several registers.
// With this, the sums of a few channels over all rows stay in registers, for any number of
// channels.
template <class T>
struct Channels {
  static constexpr int64_t kCount = 64 / static_cast<int64_t>(sizeof(T));
  typedef T Vector __attribute__((vector_size(64)));
  // By reference, because the convention for passing such a vector by value depends on the
  // instruction set.
  static void load(Vector& v, const T* from) { std::memcpy(&v, from, sizeof v); }
  static void store(const Vector& v, T* to) { std::memcpy(to, &v, sizeof v); }
};

constexpr int64_t kNumbersAtOnce = 1 << 12;  // these fit the nearest cache

// Calls f(first channel, vectors) for the c channels: four vectors at a time, then one at a time,
// then rest(channel) for the channels that do not fill a vector.
template <class T, class F, class Rest>
void for_channels(int64_t c, const F& f, const Rest& rest) {
  constexpr int64_t kCount = Channels<T>::kCount;
  int64_t j = 0;
  for (; j + 4 * kCount <= c; j += 4 * kCount) f(j, std::integral_constant<int, 4>());
  for (; j + kCount <= c; j += kCount) f(j, std::integral_constant<int, 1>());
  for (; j < c; ++j) rest(j);
}

// Calls f(first row, rows) for one group of rows after the other; a group fits the nearest cache.
template <class F>
void for_near_rows(int64_t rows, int64_t c, const F& f) {
  const int64_t step = std::max<int64_t>(1, kNumbersAtOnce / c);
  for (int64_t row = 0; row < rows; row += step) f(row, std::min(step, rows - row));
}

// y = (x - mean) * scale + beta. y may be x.
struct NormalizeLoop {
  template <class T>
  static void run(const T* x, const T* mean, const T* scale, const T* beta, T* y, int64_t rows,
                  int64_t c) {
    using Some = Channels<T>;
    for_near_rows(rows, c, [=](int64_t row, int64_t n) {
      const int64_t begin = row * c, end = (row + n) * c;
      for_channels<T>(
          c,
          [=](int64_t j, auto wide) {
            typename Some::Vector m[wide], s[wide], b[wide], v;
            for (int k = 0; k < wide; ++k) {
              Some::load(m[k], mean + j + k * Some::kCount);
              Some::load(s[k], scale + j + k * Some::kCount);
              Some::load(b[k], beta + j + k * Some::kCount);
            }
            for (int64_t i = begin + j; i < end; i += c)
              for (int k = 0; k < wide; ++k) {
                Some::load(v, x + i + k * Some::kCount);
                v = (v - m[k]) * s[k] + b[k];
                Some::store(v, y + i + k * Some::kCount);
              }
          },
          [=](int64_t j) {
            for (int64_t i = begin + j; i < end; i += c)
              y[i] = (x[i] - mean[j]) * scale[j] + beta[j];
          });
    });
  }
};

// scale = gamma / sqrt(variance + epsilon)
template <class T>
void set_scale(const KernelContext& ctx, const T* gamma, const T* variance, T* scale, int64_t c) {
  const T epsilon = static_cast<T>(ctx.attr<double>("epsilon"));
  for (int64_t j = 0; j < c; ++j) scale[j] = gamma[j] / std::sqrt(variance[j] + epsilon);
}

template <class T>
void normalize(KernelContext& ctx, const T* x, const T* gamma, const T* beta, const T* mean,
               const T* variance, T* y, int64_t rows, int64_t c) {
  if (c == 0 || rows == 0) return;
  Tensor scratch = ctx.scratch(dtype_of<T>, Shape{c});
  T* scale = scratch.mutable_data<T>();
  set_scale(ctx, gamma, variance, scale, c);
  in_row_groups(ctx, rows, c, [=, &ctx](int64_t first, int64_t count) {
    for_near_rows(count, c, [&](int64_t row, int64_t n) {
      const int64_t at = (first + row) * c;
      in_isa<NormalizeLoop>(x + at, mean, static_cast<const T*>(scale), beta, y + at, n, c);
      KernelCall::of(ctx).finish(at, n * c);
    });
  });
}

}  // namespace troupe
