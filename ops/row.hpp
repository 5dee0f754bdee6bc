// Leaves over one row of numbers, for softmax and its loss. Sums have a fixed order, whatever the
// address of the row; partial results let the compiler use vectors. Call them from a loop that
// in_isa() (devices/isa.hpp) compiles.
#pragma once

#include "ops/elementwise.hpp"
#include "ops/row_groups.hpp"
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
  ZipLoop<ExpOfDifference, 1, 0>::run(x, &max, y, n);
  return row_sum(y, n);
}

struct RowExpLoop {  // the same, for in_isa()
  template <class T>
  static T run(const T* x, T* y, int64_t n, T max) {
    return row_exp(x, y, n, max);
  }
};

// The same sum, bit for bit, of numbers that are written nowhere.
template <class T>
T row_exp_sum(const T* x, int64_t n, T max) {
  constexpr int64_t kBlock = 1024;
  static_assert(kBlock % kWholeBlock == 0 && kBlock % kRowParts == 0);
  T y[kBlock], part[kRowParts] = {};
  for (int64_t at = 0; at < n; at += kBlock) {
    const int64_t length = std::min(kBlock, n - at);
    ZipLoop<ExpOfDifference, 1, 0>::run(x + at, &max, static_cast<T*>(y), length);
    add_to_parts(static_cast<const T*>(y), length, part);
  }
  return sum_of_parts(part);
}

// y = softmax(x). Returns the logarithm of the sum of e^x. y may be x.
struct SoftmaxRowLoop {
  template <class T>
  static T run(const T* x, T* y, int64_t n) {
    const T max = row_max(x, n), sum = row_exp(x, y, n, max);
    TROUPE_INDEPENDENT
    for (int64_t j = 0; j < n; ++j) y[j] /= sum;
    return max + std::log(sum);
  }
};

// Calls part(first, count) for groups of rows of `width` numbers that do not depend on each other,
// in jobs of about 20 us of exponential functions.
template <class Part>
void in_rows(const KernelContext& ctx, int64_t rows, int64_t width, const Part& part) {
  in_row_groups(ctx, rows, width, /*elements=*/1 << 14, part);
}

}  // namespace troupe
