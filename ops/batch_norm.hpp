// What batch_norm, its gradient and batch_norm_inference share.
#pragma once

#include <cstring>
#include <type_traits>

#include "ops/norm.hpp"

namespace troupe {

// Of x [..., c]: how many rows of channels there are to sum; none without channels.
inline int64_t rows_of(const Shape& x) { return x.size() > 0 ? x.size() / x[x.ndim() - 1] : 0; }

// As many channels as one register of AVX-512 holds; smaller ones take several. Sums of a few
// channels over all rows stay in registers this way, whatever the number of channels.
template <class T>
struct Channels {
  static constexpr int64_t kCount = 64 / static_cast<int64_t>(sizeof(T));
  typedef T Vector __attribute__((vector_size(64)));
  // By reference: how such a vector is passed by value depends on the instruction set.
  static void load(Vector& v, const T* from) { std::memcpy(&v, from, sizeof v); }
  static void store(const Vector& v, T* to) { std::memcpy(to, &v, sizeof v); }
};

constexpr int64_t kNumbersAtOnce = 1 << 12;  // they stay in the nearest cache
constexpr int64_t kNumbersOfJob = 1 << 16;   // about 20 us

// Calls f(first channel, vectors) for all c channels: four vectors side by side, then one by one;
// then rest(channel) for those that fill none.
template <class T, class F, class Rest>
void for_channels(int64_t c, const F& f, const Rest& rest) {
  constexpr int64_t kCount = Channels<T>::kCount;
  int64_t j = 0;
  for (; j + 4 * kCount <= c; j += 4 * kCount) f(j, std::integral_constant<int, 4>());
  for (; j + kCount <= c; j += kCount) f(j, std::integral_constant<int, 1>());
  for (; j < c; ++j) rest(j);
}

// Calls f(first row, rows) for some rows after the other.
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

// f(first row, rows) for all rows of c numbers, in jobs.
template <class F>
void for_row_blocks(const KernelContext& ctx, int64_t rows, int64_t c, const F& f) {
  const int64_t block = std::max<int64_t>(1, kNumbersOfJob / c);
  ctx.parallel((rows + block - 1) / block,
               [&](int64_t job) { f(job * block, std::min(block, rows - job * block)); });
}

// What sum_rows() gives, bit for bit, in jobs: each is a subtree of its tree. Requires: width > 0.
template <class T, class Leaf>
void sum_rows_in_jobs(KernelContext& ctx, int64_t rows, int64_t width, T* sums, const Leaf& leaf) {
  int64_t block = kRowsMax;
  while (block * width < kNumbersOfJob) block *= 2;
  const int64_t jobs = std::max<int64_t>(1, (rows + block - 1) / block);
  const int64_t own = width + spare_size(std::min(block, rows), width);
  Tensor scratch = ctx.scratch(dtype_of<T>, Shape{jobs * own});
  T* const parts = scratch.mutable_data<T>();
  ctx.parallel(jobs, [&](int64_t job) {
    T* const to = parts + job * own;
    sum_rows(job * block, std::min(block, rows - job * block), width, to, to + width, leaf);
  });
  const auto join = [&](const auto& self, int64_t first, int64_t count) -> void {
    if (count == 1) return;
    const int64_t half = split_point(count, 1);
    self(self, first, half);
    self(self, first + half, count - half);
    T* to = parts + first * own;
    const T* from = parts + (first + half) * own;
    for (int64_t j = 0; j < width; ++j) to[j] += from[j];
  };
  join(join, 0, jobs);
  std::copy_n(parts, width, sums);
}

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
  for_row_blocks(ctx, rows, c, [=](int64_t first, int64_t n) {
    in_isa<NormalizeLoop>(x + first * c, mean, static_cast<const T*>(scale), beta, y + first * c, n,
                          c);
  });
}

}  // namespace troupe
