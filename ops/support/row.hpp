// Leaf loops over one row of numbers, for softmax and its loss. Sums have a fixed order that does
// not depend on the row's address; partial results allow vectorisation. Call them from a loop that
// in_isa() (devices/threads/isa.hpp) compiles.
#pragma once

#include "ops/support/elementwise.hpp"
#include "ops/support/exponential.hpp"
#include "ops/support/row_groups.hpp"

namespace troupe {

constexpr int kRowParts = 16;

// Joins all parts with `join`, as a tree.
template <int kParts, class T, class Join>
T join_row_parts(T (&part)[kParts], const Join& join) {
  if constexpr (kParts > kRowParts) {  // whole vectors first
    static_assert(kParts == 4 * kRowParts);
    for (int j = 0; j < kRowParts; ++j)
      part[j] = join(join(part[j], part[j + kRowParts]),
                     join(part[j + 2 * kRowParts], part[j + 3 * kRowParts]));
  }
  for (int width = kRowParts / 2; width > 0; width /= 2)
    for (int j = 0; j < width; ++j) part[j] = join(part[j], part[j + width]);
  return part[0];
}
template <int kParts, class T>
T sum_of_parts(T (&part)[kParts]) {
  return join_row_parts(part, [](T a, T b) { return a + b; });
}

// Sums the numbers i, i + 16, i + 32, ... first, then these 16 sums as a tree.
template <class T>
T row_sum(const T* x, int64_t n) {
  T part[kRowParts] = {};
  int64_t i = 0;
  for (; i + kRowParts <= n; i += kRowParts)
    for (int j = 0; j < kRowParts; ++j) part[j] += x[i + j];
  for (int j = 0; i < n; ++i, ++j) part[j] += x[i];
  return sum_of_parts(part);
}

// ---- softmax: rows of many classes ----

constexpr int kClassParts = 64;  // four AVX-512 registers hide each other's latency

// The greatest of n numbers; -infinity for n = 0. NaN is ignored.
template <class T>
T row_max(const T* x, int64_t n) {
  T part[kClassParts];
  std::fill_n(part, kClassParts, -std::numeric_limits<T>::infinity());
  int64_t i = 0;
  for (; i + kClassParts <= n; i += kClassParts)
    for (int j = 0; j < kClassParts; ++j) part[j] = x[i + j] > part[j] ? x[i + j] : part[j];
  for (int j = 0; i < n; ++i, ++j) part[j] = x[i] > part[j] ? x[i] : part[j];
  return join_row_parts(part, [](T a, T b) { return a > b ? a : b; });
}

// e^(x - max), where max is the greatest element.
struct ExpOfDifference {
  static constexpr bool kWhole = true;
  template <class T>
  static T apply(T x, T max) {
    return math::exp_of_negative(x - max);
  }
};

// y[j] = e^(x[j] - max); part[j] += y[j], for all j < n <= kClassParts.
template <class T>
void add_exp_of_block(const T* x, T* y, int64_t n, T max, T (&part)[kClassParts]) {
  static_assert(kClassParts == kWholeBlock);
  if (n == kClassParts) {
    TROUPE_INDEPENDENT
    for (int j = 0; j < kClassParts; ++j) {
      const T power = math::exp_of_negative(x[j] - max);
      y[j] = power;
      part[j] += power;
    }
    return;
  }
  ZipLoop<ExpOfDifference, 1, 0>::run(x, &max, y, n);
  for (int64_t j = 0; j < n; ++j) part[j] += y[j];
}

// y = e^(x - max). Returns the sum of y. y may be x. Subtracting `max` avoids an infinite e^800 and
// does not change the softmax.
template <class T>
T row_exp(const T* x, T* y, int64_t n, T max) {
  T part[kClassParts] = {};
  for (int64_t i = 0; i < n; i += kClassParts)
    add_exp_of_block(x + i, y + i, std::min<int64_t>(kClassParts, n - i), max, part);
  return sum_of_parts(part);
}

struct RowExpLoop {  // row_exp for in_isa()
  template <class T>
  static T run(const T* x, T* y, int64_t n, T max) {
    return row_exp(x, y, n, max);
  }
};

// The same sum as row_exp, bit for bit, without writing y.
template <class T>
T row_exp_sum(const T* x, int64_t n, T max) {
  T y[kClassParts], part[kClassParts] = {};
  for (int64_t i = 0; i < n; i += kClassParts)
    add_exp_of_block(x + i, static_cast<T*>(y), std::min<int64_t>(kClassParts, n - i), max, part);
  return sum_of_parts(part);
}

// y = softmax(x). Returns the logarithm of the sum of e^x. y may be x.
struct SoftmaxRowLoop {
  template <class T>
  static T run(const T* x, T* y, int64_t n) {
    const T max = row_max(x, n), sum = row_exp(x, y, n, max), share = 1 / sum;
    TROUPE_INDEPENDENT
    for (int64_t j = 0; j < n; ++j) y[j] *= share;
    return max + std::log(sum);
  }
};

// Calls part(first, count) for groups of independent rows of `width` numbers, in jobs of about 20
// us of exponential functions.
template <class Part>
void in_rows(const KernelContext& ctx, int64_t rows, int64_t width, const Part& part) {
  in_row_groups(ctx, rows, width, /*elements=*/1 << 14, part);
}

}  // namespace troupe
