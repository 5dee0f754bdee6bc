// What reductions share: shapes, and a reduction in a fixed order. The tree of partial results
// depends on the sizes alone, so the bits are the same whoever computes them; and it is shallow, so
// an f32 sum of 2^20 numbers loses a few bits, not twenty.
#pragma once

#include "ops/axes.hpp"
#include "ops/elementwise.hpp"
#include "ops/strided.hpp"

namespace troupe {

// ---- shapes ----

// x without the axes in the set, or with size 1 there.
Shape reduced_shape(const Shape& x, uint32_t axes, bool keep_dims);

template <class Context>
uint32_t reduced_axes(const Context& ctx, int ndim) {
  return checked_axes(ctx, ctx.template attr<std::vector<int64_t>>("axes"), ndim);
}

std::vector<AttrSpec> reduce_attrs();
Attrs to_attrs(const ReduceOptions& options);
ReduceOptions reduce_options(const Node& node);
std::vector<Shape> infer_reduced(const InferContext& ctx);

// A tensor as [outer, reduced, inner]; what cannot be seen so is first copied into [outer,
// reduced].
struct ReduceView {
  int64_t outer = 1, reduced = 1, inner = 1;
  const void* x = nullptr;
  Tensor copy;  // holds the elements of x if they were copied
};
ReduceView reduce_view(KernelContext& ctx, const Tensor& x, uint32_t axes);

// ---- the fixed tree; R::apply joins two partial results ----

constexpr int64_t kLanes = 16;    // partial results of one run: four vector registers
constexpr int64_t kRunMax = 512;  // elements of a leaf
constexpr int64_t kRowsMax = 16;  // rows of a leaf
constexpr int64_t kColumnsMax =
    256;  // columns reduced together: partial rows stay in the nearest cache

// The largest unit * 2^k below n. Requires: n > unit.
inline int64_t split_point(int64_t n, int64_t unit) {
  int64_t half = unit;
  while (2 * half < n) half *= 2;
  return half;
}

// n >= 1 elements, one after the other.
template <class R, class T>
T reduce_run(const T* x, int64_t n) {
  if (n > kRunMax) {
    const int64_t half = split_point(n, kRunMax);
    return R::apply(reduce_run<R>(x, half), reduce_run<R>(x + half, n - half));
  }
  if (n < kLanes) {
    T sum = x[0];
    for (int64_t i = 1; i < n; ++i) sum = R::apply(sum, x[i]);
    return sum;
  }
  T lanes[kLanes];
  std::copy_n(x, kLanes, lanes);
  int64_t i = kLanes;
  for (; i + kLanes <= n; i += kLanes)
    for (int64_t j = 0; j < kLanes; ++j) lanes[j] = R::apply(lanes[j], x[i + j]);
  for (int64_t j = 0; i + j < n; ++j) lanes[j] = R::apply(lanes[j], x[i + j]);
  for (int64_t width = kLanes / 2; width > 0; width /= 2)
    for (int64_t j = 0; j < width; ++j) lanes[j] = R::apply(lanes[j], lanes[j + width]);
  return lanes[0];
}

// y[j] = the reduction of column j of [rows, stride], for `columns` <= kColumnsMax of them.
template <class R, class T>
void reduce_columns(const T* x, int64_t rows, int64_t stride, int64_t columns, T* y) {
  if (rows <= kRowsMax) {
    std::copy_n(x, columns, y);
    for (int64_t r = 1; r < rows; ++r)
      for (int64_t j = 0; j < columns; ++j) y[j] = R::apply(y[j], x[r * stride + j]);
    return;
  }
  const int64_t half = split_point(rows, kRowsMax);
  T more[kColumnsMax];
  reduce_columns<R>(x, half, stride, columns, y);
  reduce_columns<R>(x + half * stride, rows - half, stride, columns, more);
  for (int64_t j = 0; j < columns; ++j) y[j] = R::apply(y[j], more[j]);
}

// y: [outer, inner]. Requires: view.reduced >= 1.
template <class R, class T>
void reduce_lines(const ReduceView& view, T* y) {
  const T* x = static_cast<const T*>(view.x);
  for (int64_t o = 0; o < view.outer; ++o, x += view.reduced * view.inner, y += view.inner) {
    if (view.inner == 1) {
      *y = reduce_run<R>(x, view.reduced);
      continue;
    }
    for (int64_t j = 0; j < view.inner; j += kColumnsMax)
      reduce_columns<R>(x + j, view.reduced, view.inner, std::min(kColumnsMax, view.inner - j),
                        y + j);
  }
}

// y: [outer, inner]; `of_nothing` where there is nothing to reduce.
template <class R, class T>
void reduce_or(T of_nothing, const ReduceView& view, T* y) {
  if (view.reduced == 0)
    std::fill_n(y, view.outer * view.inner, of_nothing);
  else
    reduce_lines<R>(view, y);
}

template <class T>
void sum_all(const ReduceView& view, T* y) {
  reduce_or<Add>(T{0}, view, y);
}

}  // namespace troupe
