// Leaves over one row of numbers, for softmax and its loss. Sums have a fixed order, whatever the
// address of the row; partial results let the compiler use vectors.
#pragma once

#include "ops/elementwise.hpp"
#include "ops/vector_math.hpp"

namespace troupe {

constexpr int kRowParts = 16;

// The greatest of n numbers; -infinity of none. Any number if one of them is NaN.
template <class T>
T row_max(const T* x, int64_t n) {
  T part[kRowParts];
  std::fill_n(part, kRowParts, -std::numeric_limits<T>::infinity());
  int64_t i = 0;
  for (; i + kRowParts <= n; i += kRowParts)
    for (int j = 0; j < kRowParts; ++j) part[j] = x[i + j] > part[j] ? x[i + j] : part[j];
  for (int j = 0; i < n; ++i, ++j) part[j] = x[i] > part[j] ? x[i] : part[j];
  return *std::max_element(part, part + kRowParts);
}

// part[j] += numbers j, j + 16, j + 32, ...
template <class T>
void add_to_parts(const T* x, int64_t n, T (&part)[kRowParts]) {
  int64_t i = 0;
  for (; i + kRowParts <= n; i += kRowParts)
    for (int j = 0; j < kRowParts; ++j) part[j] += x[i + j];
  for (int j = 0; i < n; ++i, ++j) part[j] += x[i];
}
template <class T>
T sum_of_parts(T (&part)[kRowParts]) {  // as a tree
  for (int width = kRowParts / 2; width > 0; width /= 2)
    for (int j = 0; j < width; ++j) part[j] += part[j + width];
  return part[0];
}

// Numbers i, i + 16, i + 32, ... first, then these 16 sums as a tree.
template <class T>
T row_sum(const T* x, int64_t n) {
  T part[kRowParts] = {};
  add_to_parts(x, n, part);
  return sum_of_parts(part);
}

// The same for in_isa(); row_max() and row_sum() themselves are for loops that are in one already.
struct RowMaxLoop {
  template <class T>
  static T run(const T* x, int64_t n) {
    return row_max(x, n);
  }
};
struct RowSumLoop {
  template <class T>
  static T run(const T* x, int64_t n) {
    return row_sum(x, n);
  }
};

struct ExpOfDifference {
  static constexpr bool kWhole = true;
  template <class T>
  static T apply(T x, T max) {
    return math::exp(x - max);
  }
};

// y = e^(x - max). Returns the sum of y. y may be x. Without `max`, e^800 would be infinite; the
// result is the same.
template <class T>
T row_exp(const T* x, T* y, int64_t n, T max) {
  zip_elements<ExpOfDifference, 1, 0>(x, &max, y, n);
  return in_isa<RowSumLoop>(static_cast<const T*>(y), n);
}

// The same sum, bit for bit, of numbers that are written nowhere.
struct RowExpSumLoop {
  template <class T>
  static T run(const T* x, int64_t n, T max) {
    constexpr int64_t kBlock = 1024;
    static_assert(kBlock % kWholeBlock == 0 && kBlock % kRowParts == 0);
    T y[kBlock], part[kRowParts] = {};
    for (int64_t at = 0; at < n; at += kBlock) {
      const int64_t length = std::min(kBlock, n - at);
      ZipLoop<ExpOfDifference, 1, 0>::run(x + at, static_cast<const T*>(&max), static_cast<T*>(y),
                                          length);
      add_to_parts(static_cast<const T*>(y), length, part);
    }
    return sum_of_parts(part);
  }
};

// y = factor * (y / sum)
struct RowScaleLoop {
  template <class T>
  static void run(T* y, int64_t n, T factor, T sum) {
    TROUPE_INDEPENDENT
    for (int64_t j = 0; j < n; ++j) y[j] = factor * (y[j] / sum);
  }
};

// Calls f(row) for all rows of n numbers, many of them in one job.
template <class F>
void for_rows(const KernelContext& ctx, int64_t rows, int64_t n, const F& f) {
  constexpr int64_t kNumbers = 1 << 15;  // about 20 us
  const int64_t per_job = std::max<int64_t>(1, kNumbers / std::max<int64_t>(n, 1));
  ctx.parallel((rows + per_job - 1) / per_job, [&](int64_t job) {
    const int64_t end = std::min(rows, (job + 1) * per_job);
    for (int64_t row = job * per_job; row < end; ++row) f(row);
  });
}

}  // namespace troupe
