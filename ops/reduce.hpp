// What reductions share: shapes, and a reduction in a fixed order. The tree of partial results
// depends on the sizes alone, so the bits are the same whoever computes them; and it is shallow, so
// an f32 sum of 2^20 numbers loses a few bits, not twenty.
#pragma once

#include "ops/axes.hpp"
#include "ops/elementwise.hpp"
#include "ops/row_groups.hpp"
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
constexpr int64_t kReducedPerJob = 1 << 16;  // elements: 20 us or more where they come from memory
static_assert(kReducedPerJob % kRunMax == 0);

// The largest unit * 2^k below n. Requires: n > unit.
inline int64_t split_point(int64_t n, int64_t unit) {
  int64_t half = unit;
  while (2 * half < n) half *= 2;
  return half;
}

// Joins `count` >= 1 rows of `width`, one after the other, into the first of them: the upper part
// of the tree, whose subtrees of equal size they are (the last one may be smaller).
template <class R, class T>
void join_parts(T* parts, int64_t count, int64_t width) {
  if (count == 1) return;
  const int64_t half = split_point(count, 1);
  join_parts<R>(parts, half, width);
  join_parts<R>(parts + half * width, count - half, width);
  for (int64_t j = 0; j < width; ++j) parts[j] = R::apply(parts[j], parts[half * width + j]);
}

// ---- leaves, compiled for each instruction set ----

// 1 <= n <= kRunMax elements, one after the other.
template <class R, class T>
T reduce_leaf(const T* x, int64_t n) {
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

// y[r] = the leaf of row r of [rows, n]. Requires: 1 <= n <= kRunMax.
template <class R>
struct ShortRunsLoop {
  template <class T>
  static void run(const T* x, int64_t rows, int64_t n, T* y) {
    for (int64_t r = 0; r < rows; ++r) y[r] = reduce_leaf<R>(x + r * n, n);
  }
};

// leaves[i] = that of elements [i * kRunMax, (i + 1) * kRunMax) of n.
template <class R>
struct LeavesLoop {
  template <class T>
  static void run(const T* x, int64_t n, T* leaves) {
    for (int64_t i = 0; i < n; i += kRunMax)
      *leaves++ = reduce_leaf<R>(x + i, std::min(kRunMax, n - i));
  }
};

// y[j] = the reduction of column j of [rows, stride], rows <= kRowsMax.
template <class R>
struct ColumnsLoop {
  template <class T>
  static void run(const T* x, int64_t rows, int64_t stride, int64_t columns, T* y) {
    std::copy_n(x, columns, y);
    for (int64_t r = 1; r < rows; ++r) {
      const T* row = x + r * stride;
      TROUPE_INDEPENDENT
      for (int64_t j = 0; j < columns; ++j) y[j] = R::apply(y[j], row[j]);
    }
  }
};

// ---- subtrees that one job reduces ----

// 1 <= n <= kReducedPerJob elements, one after the other.
template <class R, class T>
T reduce_run(const T* x, int64_t n) {
  T leaves[kReducedPerJob / kRunMax];
  in_isa<LeavesLoop<R>>(x, n, leaves);
  join_parts<R>(leaves, (n + kRunMax - 1) / kRunMax, 1);
  return leaves[0];
}

// y[j] = the reduction of column j of [rows, stride], for `columns` <= kColumnsMax of them.
template <class R, class T>
void reduce_columns(const T* x, int64_t rows, int64_t stride, int64_t columns, T* y) {
  if (rows <= kRowsMax) return in_isa<ColumnsLoop<R>>(x, rows, stride, columns, y);
  const int64_t half = split_point(rows, kRowsMax);
  T more[kColumnsMax];
  reduce_columns<R>(x, half, stride, columns, y);
  reduce_columns<R>(x + half * stride, rows - half, stride, columns, more);
  for (int64_t j = 0; j < columns; ++j) y[j] = R::apply(y[j], more[j]);
}

// ---- whole reductions, cut into jobs by their sizes alone ----

inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Rows of `width` elements in one job: whole subtrees of the tree over rows, kRowsMax * 2^k.
inline int64_t rows_per_job(int64_t width) {
  int64_t rows = kRowsMax;
  while (rows * width < kReducedPerJob) rows *= 2;
  return rows;
}

// Calls part(first, count) for groups of `rows` rows of `width` elements.
template <class Part>
void in_row_groups(const KernelContext& ctx, int64_t rows, int64_t width, const Part& part) {
  in_row_groups(ctx, rows, width, kReducedPerJob, part);
}

// y [outer] of x [outer, reduced].
template <class R, class T>
void reduce_rows(KernelContext& ctx, const T* x, int64_t outer, int64_t reduced, T* y) {
  if (reduced <= kRunMax)
    return in_row_groups(ctx, outer, reduced, [=](int64_t first, int64_t count) {
      in_isa<ShortRunsLoop<R>>(x + first * reduced, count, reduced, y + first);
    });
  if (reduced <= kReducedPerJob)
    return in_row_groups(ctx, outer, reduced, [=](int64_t first, int64_t count) {
      for (int64_t o = first; o < first + count; ++o)
        y[o] = reduce_run<R>(x + o * reduced, reduced);
    });
  const int64_t parts = ceil_div(reduced, kReducedPerJob);
  Tensor scratch = ctx.scratch(dtype_of<T>, Shape{outer, parts});
  T* sums = scratch.mutable_data<T>();
  ctx.parallel(outer * parts, [=](int64_t job) {
    const int64_t begin = job % parts * kReducedPerJob;
    sums[job] =
        reduce_run<R>(x + job / parts * reduced + begin, std::min(kReducedPerJob, reduced - begin));
  });
  for (int64_t o = 0; o < outer; ++o, sums += parts) {
    join_parts<R>(sums, parts, 1);
    y[o] = *sums;
  }
}

// y [outer, inner] of x [outer, reduced, inner], inner > 1.
template <class R, class T>
void reduce_middle(KernelContext& ctx, const T* x, const ReduceView& view, T* y) {
  const int64_t reduced = view.reduced, inner = view.inner;
  const int64_t blocks = ceil_div(inner, kColumnsMax);
  const int64_t rows = rows_per_job(std::min(kColumnsMax, inner)), parts = ceil_div(reduced, rows);
  if (parts == 1)
    return in_row_groups(ctx, view.outer * blocks, reduced * std::min(kColumnsMax, inner),
                         [=](int64_t first, int64_t count) {
                           for (int64_t i = first; i < first + count; ++i) {
                             const int64_t o = i / blocks, j = i % blocks * kColumnsMax;
                             reduce_columns<R>(x + o * reduced * inner + j, reduced, inner,
                                               std::min(kColumnsMax, inner - j), y + o * inner + j);
                           }
                         });
  Tensor scratch = ctx.scratch(dtype_of<T>, Shape{view.outer, parts, inner});
  T* sums = scratch.mutable_data<T>();
  ctx.parallel(view.outer * parts * blocks, [=](int64_t job) {
    const int64_t part = job / blocks, j = job % blocks * kColumnsMax;  // part: of all outer ones
    const int64_t begin = part % parts * rows;
    reduce_columns<R>(x + (part / parts * reduced + begin) * inner + j,
                      std::min(rows, reduced - begin), inner, std::min(kColumnsMax, inner - j),
                      sums + part * inner + j);
  });
  for (int64_t o = 0; o < view.outer; ++o, sums += parts * inner) {
    join_parts<R>(sums, parts, inner);
    std::copy_n(sums, inner, y + o * inner);
  }
}

// y: [outer, inner]. Requires: view.reduced >= 1. Ask for the output before.
template <class R, class T>
void reduce_elements(KernelContext& ctx, const ReduceView& view, T* y) {
  const T* x = static_cast<const T*>(view.x);
  if (view.inner == 1)
    reduce_rows<R>(ctx, x, view.outer, view.reduced, y);
  else if (view.outer > 0 && view.inner > 0)
    reduce_middle<R>(ctx, x, view, y);
}

// y: [outer, inner]; `of_nothing` where there is nothing to reduce.
template <class R, class T>
void reduce_or(KernelContext& ctx, T of_nothing, const ReduceView& view, T* y) {
  if (view.reduced == 0)
    std::fill_n(y, view.outer * view.inner, of_nothing);
  else
    reduce_elements<R>(ctx, view, y);
}

template <class T>
void sum_all(KernelContext& ctx, const ReduceView& view, T* y) {
  reduce_or<Add>(ctx, T{0}, view, y);
}

}  // namespace troupe
