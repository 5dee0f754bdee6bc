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

// Numbers i, i + 16, i + 32, ... first, then these 16 sums as a tree.
template <class T>
T row_sum(const T* x, int64_t n) {
  T part[kRowParts] = {};
  int64_t i = 0;
  for (; i + kRowParts <= n; i += kRowParts)
    for (int j = 0; j < kRowParts; ++j) part[j] += x[i + j];
  for (int j = 0; i < n; ++i, ++j) part[j] += x[i];
  for (int width = kRowParts / 2; width > 0; width /= 2)
    for (int j = 0; j < width; ++j) part[j] += part[j + width];
  return part[0];
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
  zip_elements<ExpOfDifference, 1, 0>(x, &max, y, n);
  return row_sum(y, n);
}

}  // namespace troupe
