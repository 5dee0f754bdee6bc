// The loops of a reduction, compiled for each instruction set. Include it only in files that make
// an op's table of loops: these loops take most of the compile time.
//
// R joins two elements, R::apply(a, b); R::nothing<T> is the result for no elements. The extremes
// are the R that derive from Maximum or Minimum.
#pragma once

#include "ops/reductions/reduce.hpp"
#include "ops/reductions/short_sums.hpp"

namespace troupe {

constexpr int kLanes = 16;  // partial results of a short run
static_assert(kLanes == 16, "ShortSums has two vectors of eight");
constexpr int kLanesOfLong = 32;  // of a long run: two operations at a time
constexpr int64_t kLong = 256;    // elements; a longer leaf counts as a long run

template <class R>
constexpr bool is_extreme = std::is_base_of_v<Maximum, R> || std::is_base_of_v<Minimum, R>;

// R::apply(a, b). The extremes are written as two selections, of which one does not depend on a.
template <class R, class T>
T joined(T a, T b) {
  if constexpr (is_extreme<R>) {
    const T extreme = (std::is_base_of_v<Maximum, R> ? b > a : b < a) ? b : a;
    return b == b ? extreme : b;
  } else {
    return R::apply(a, b);
  }
}

// Joins lanes[j] with x[j], x[j + kCount], ..., kRounds of them. g++ vectorises selections in a
// loop, but not unrolled ones, so the loop must not be unrolled.
template <class R, int kRounds, int kCount, class T>
void join_rounds(T (&lanes)[kCount], const T* x) {
#if !defined(__clang__)
#pragma GCC unroll 1
#endif
  for (int j = 0; j < kCount; ++j) {
    T lane = lanes[j];
    for (int round = 0; round < kRounds; ++round) lane = joined<R>(lane, x[round * kCount + j]);
    lanes[j] = lane;
  }
}

// Joins elements i, i + kCount, i + 2 * kCount, ... first, then these lanes as a tree. n >= kCount.
template <class R, int kCount, class T>
T reduce_lanes(const T* x, int64_t n) {
  T lanes[kCount];
  std::copy_n(x, kCount, lanes);
  int64_t i = kCount;
  if constexpr (is_extreme<R>)
    for (; i + 4 * kCount <= n; i += 4 * kCount) join_rounds<R, 4>(lanes, x + i);
  for (; i + kCount <= n; i += kCount)
    if constexpr (is_extreme<R>)
      join_rounds<R, 1>(lanes, x + i);
    else
      for (int j = 0; j < kCount; ++j) lanes[j] = R::apply(lanes[j], x[i + j]);
  for (int64_t j = 0; i + j < n; ++j) lanes[j] = joined<R>(lanes[j], x[i + j]);
  for (int64_t width = kCount / 2; width > 0; width /= 2)
    for (int64_t j = 0; j < width; ++j) lanes[j] = joined<R>(lanes[j], lanes[j + width]);
  return lanes[0];
}

// Joins 1 <= n <= kRunMax consecutive elements.
template <class R, class T>
T reduce_leaf(const T* x, int64_t n) {
  if (n > (is_extreme<R> ? kLanesOfLong : kLong)) return reduce_lanes<R, kLanesOfLong>(x, n);
  if (n >= kLanes) return reduce_lanes<R, kLanes>(x, n);
  T sum = x[0];
  for (int64_t i = 1; i < n; ++i) sum = R::apply(sum, x[i]);
  return sum;
}

template <class R>
struct LeavesLoop {
  template <class T>
  static void run(const T* x, int64_t n, int64_t length, T* y) {
    if (length >= kLanes) {
      if constexpr (std::is_base_of_v<Add, R> && std::is_same_v<T, float>)
        if (length <= kLong) {
          const int64_t rows = ShortSums::run(x, n / length, length, y);
          x += rows * length;
          n -= rows * length;
          y += rows;
        }
      for (int64_t i = 0; i < n; i += length) *y++ = reduce_leaf<R>(x + i, std::min(length, n - i));
      return;
    }
    for (int64_t i = 0; i < n; i += length) {
      T sum = x[i];
      for (int64_t j = 1; j < length; ++j) sum = R::apply(sum, x[i + j]);
      *y++ = sum;
    }
  }
};

template <class R>
struct RowsLoop {
  template <class T>
  static void run(const T* x, int64_t rows, int64_t stride, int64_t columns, T* y) {
    int64_t r = 0;
    if constexpr (!is_extreme<R>)  // extremes are slower with it
      for (; r + 4 <= rows; r += 4) {
        const T *a = x + r * stride, *b = a + stride, *c = b + stride, *d = c + stride;
        TROUPE_INDEPENDENT
        for (int64_t j = 0; j < columns; ++j)
          y[j] = R::apply(R::apply(R::apply(R::apply(y[j], a[j]), b[j]), c[j]), d[j]);
      }
    for (; r < rows; ++r) {
      const T* row = x + r * stride;
      TROUPE_INDEPENDENT
      for (int64_t j = 0; j < columns; ++j) y[j] = R::apply(y[j], row[j]);
    }
  }
};

template <class R, class T>
constexpr Reduction reduction_of() {
  return {.dtype = dtype_of<T>,
          .leaves =
              [](const void* x, int64_t n, int64_t run, void* y) {
                in_isa<LeavesLoop<R>>(static_cast<const T*>(x), n, run, static_cast<T*>(y));
              },
          .rows =
              [](const void* x, int64_t rows, int64_t stride, int64_t columns, void* y) {
                in_isa<RowsLoop<R>>(static_cast<const T*>(x), rows, stride, columns,
                                    static_cast<T*>(y));
              },
          .parts = [](void* parts, int64_t count,
                      int64_t width) { join_parts<R>(static_cast<T*>(parts), count, width); },
          .nothing = [](void* y,
                        int64_t n) { std::fill_n(static_cast<T*>(y), n, R::template nothing<T>); }};
}

// Requires: dtype is one of Ts.
template <class R, class... Ts>
const Reduction& find_reduction(DType dtype) {
  static constexpr Reduction all[] = {reduction_of<R, Ts>()...};
  for (const Reduction& one : all)
    if (one.dtype == dtype) return one;
  throw Error(Errc::internal, "no reduction is compiled for ", dtype);
}

}  // namespace troupe
