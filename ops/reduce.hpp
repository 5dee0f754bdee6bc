// What reductions share: shapes, and a reduction in a fixed order. The tree of partial results
// depends on the sizes alone, so the bits are the same whoever computes them; and it is shallow, so
// an f32 sum of 2^20 numbers loses a few bits, not twenty.
#pragma once

#include "ops/axes.hpp"
#include "ops/elementwise.hpp"
#include "ops/row_groups.hpp"
#include "ops/strided.hpp"

namespace troupe {

// Of an op whose kernel reads its input by reduce_view() and reduce_elements() alone.
inline Kernel reduce_kernel(DType dtype, void (*run)(KernelContext&)) {
  return {.dtype = dtype, .run = run, .takes = true};
}

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
  const void* x = nullptr;  // null: taken part by part, in this order
  Tensor copy;              // holds the elements of x if they were copied
  Tensor sums;              // [outer, parts] of their reduction, if that is asked for early
};
ReduceView reduce_view(KernelContext& ctx, const Tensor& x, uint32_t axes);

// ---- the fixed tree; R::apply joins two partial results ----

constexpr int kLanes = 16;              // partial results of a short run
constexpr int kLanesOfLong = 32;        // of a long one: two of its operations at a time
constexpr int64_t kLong = 256;          // elements; a longer leaf is a long run
constexpr int64_t kRunMax = 512;        // elements of a leaf
constexpr int64_t kRowsMax = 16;        // rows of a leaf
constexpr int64_t kColumnsMax = 256;    // columns reduced together: partial rows stay in the
                                        // nearest cache
constexpr int64_t kWideColumns = 2048;  // of wide rows: runs that are long enough to be foreseen
constexpr int64_t kWideRows = 128;      // of a job then, a whole subtree of the tree over rows
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

template <class R>
constexpr bool is_extreme = std::is_same_v<R, Maximum> || std::is_same_v<R, Minimum>;

// R::apply(a, b). The extremes are written as two choices, of which one does not wait for a.
template <class R, class T>
T joined(T a, T b) {
  if constexpr (is_extreme<R>) {
    const T extreme = (std::is_same_v<R, Maximum> ? b > a : b < a) ? b : a;
    return b == b ? extreme : b;
  } else {
    return R::apply(a, b);
  }
}

// lanes[j] joined with x[j], x[j + kCount], ... of that many rounds. g++ makes vectors of choices
// in a loop, not of choices in a row, and so must not unroll it.
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

// Elements i, i + kCount, i + 2 * kCount, ... first, then these lanes as a tree. n >= kCount.
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

// 1 <= n <= kRunMax elements, one after the other.
template <class R, class T>
T reduce_leaf(const T* x, int64_t n) {
  if (n > (is_extreme<R> ? kLanesOfLong : kLong)) return reduce_lanes<R, kLanesOfLong>(x, n);
  if (n >= kLanes) return reduce_lanes<R, kLanes>(x, n);
  T sum = x[0];
  for (int64_t i = 1; i < n; ++i) sum = R::apply(sum, x[i]);
  return sum;
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
    int64_t r = 1;
    if constexpr (!is_extreme<R>)  // which are slower so
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

// y[j] = R::apply(y[j], element j of a row), for one row of [rows, columns] after the other.
template <class R>
struct MoreRowsLoop {
  template <class T>
  static void run(const T* x, int64_t rows, int64_t columns, T* y) {
    for (int64_t r = 0; r < rows; ++r) {
      const T* row = x + r * columns;
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

// y[j] = the reduction of column j of [rows, stride], for `columns` <= kMost of them.
template <class R, int64_t kMost, class T>
void reduce_columns(const T* x, int64_t rows, int64_t stride, int64_t columns, T* y) {
  if (rows <= kRowsMax) return in_isa<ColumnsLoop<R>>(x, rows, stride, columns, y);
  const int64_t half = split_point(rows, kRowsMax);
  T more[kMost];
  reduce_columns<R, kMost>(x, half, stride, columns, y);
  reduce_columns<R, kMost>(x + half * stride, rows - half, stride, columns, more);
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
void reduce_rows(KernelContext& ctx, const T* x, const ReduceView& view, T* y) {
  const int64_t outer = view.outer, reduced = view.reduced;
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
  Tensor scratch = view.sums.defined() ? view.sums : ctx.scratch(dtype_of<T>, Shape{outer, parts});
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

// y [outer, inner] of x [outer, reduced, inner], in blocks of up to kMost columns.
template <class R, int64_t kMost, class T>
void reduce_blocks(KernelContext& ctx, const T* x, const ReduceView& view, int64_t rows, T* y) {
  const int64_t reduced = view.reduced, inner = view.inner, width = std::min(kMost, inner);
  const int64_t blocks = ceil_div(inner, width), parts = ceil_div(reduced, rows);
  if (parts == 1)
    return in_row_groups(
        ctx, view.outer * blocks, reduced * width, [=](int64_t first, int64_t count) {
          for (int64_t i = first; i < first + count; ++i) {
            const int64_t o = i / blocks, j = i % blocks * width;
            reduce_columns<R, kMost>(x + o * reduced * inner + j, reduced, inner,
                                     std::min(width, inner - j), y + o * inner + j);
          }
        });
  Tensor scratch = ctx.scratch(dtype_of<T>, Shape{view.outer, parts, inner});
  T* sums = scratch.mutable_data<T>();
  ctx.parallel(view.outer * parts * blocks, [=](int64_t job) {
    const int64_t part = job / blocks, j = job % blocks * width;  // part: of all outer ones
    const int64_t begin = part % parts * rows;
    reduce_columns<R, kMost>(x + (part / parts * reduced + begin) * inner + j,
                             std::min(rows, reduced - begin), inner, std::min(width, inner - j),
                             sums + part * inner + j);
  });
  for (int64_t o = 0; o < view.outer; ++o, sums += parts * inner) {
    join_parts<R>(sums, parts, inner);
    std::copy_n(sums, inner, y + o * inner);
  }
}

// inner > 1. Blocks and parts change no bit.
template <class R, class T>
void reduce_middle(KernelContext& ctx, const T* x, const ReduceView& view, T* y) {
  if (view.inner >= kWideColumns)
    reduce_blocks<R, kWideColumns>(ctx, x, view, kWideRows, y);
  else
    reduce_blocks<R, kColumnsMax>(ctx, x, view, rows_per_job(std::min(kColumnsMax, view.inner)), y);
}

// ---- the same of what is taken: other jobs, the same tree ----

// Elements [begin, begin + n) of the input, 1 <= n <= kReducedPerJob.
template <class R, class T>
T reduce_taken_run(const KernelContext& ctx, int64_t begin, int64_t n) {
  T leaves[kReducedPerJob / kRunMax];
  ctx.take<T>(begin, n, kRunMax, [&](const T* x, int64_t at, int64_t count) {
    in_isa<LeavesLoop<R>>(x, count, leaves + (at - begin) / kRunMax);
  });
  join_parts<R>(leaves, (n + kRunMax - 1) / kRunMax, 1);
  return leaves[0];
}

template <class R, class T>
void reduce_taken_rows(KernelContext& ctx, int64_t outer, int64_t reduced, T* y) {
  if (reduced <= kRunMax)
    return in_row_groups(ctx, outer, reduced, [&, y](int64_t first, int64_t rows) {
      ctx.take<T>(first * reduced, rows * reduced, reduced,
                  [=](const T* x, int64_t at, int64_t count) {
                    in_isa<ShortRunsLoop<R>>(x, count / reduced, reduced, y + at / reduced);
                  });
    });
  if (reduced <= kReducedPerJob)
    return in_row_groups(ctx, outer, reduced, [&, y](int64_t first, int64_t rows) {
      for (int64_t o = first; o < first + rows; ++o)
        y[o] = reduce_taken_run<R, T>(ctx, o * reduced, reduced);
    });
  const int64_t parts = ceil_div(reduced, kReducedPerJob);
  Tensor scratch = ctx.scratch(dtype_of<T>, Shape{outer, parts});
  T* sums = scratch.mutable_data<T>();
  ctx.parallel(outer * parts, [&, sums](int64_t job) {
    const int64_t begin = job % parts * kReducedPerJob;
    sums[job] = reduce_taken_run<R, T>(ctx, job / parts * reduced + begin,
                                       std::min(kReducedPerJob, reduced - begin));
  });
  for (int64_t o = 0; o < outer; ++o, sums += parts) {
    join_parts<R>(sums, parts, 1);
    y[o] = *sums;
  }
}

constexpr int64_t kTakenColumnsMax = 2048;  // reduced together where they are made: long runs

// The tree over rows of `width` columns that come one after the other: subtrees of 1, 2, 4 ...
// leaves of kRowsMax rows wait for their neighbours. For as many rows as rows_per_job(width).
template <class R, class T>
class RowTree {
 public:
  explicit RowTree(int64_t width) : width_(width) {}

  // Elements of the rows, in their order; a part begins where the one before has ended.
  void add(const T* x, int64_t n) {
    while (n > 0) {
      T* const leaf = rows_ + depth_ * width_;
      int64_t count = std::min(n, width_ - column_);
      if (column_ == 0 && leaf_rows_ > 0 && n >= width_) {  // whole rows at once
        count = std::min(n / width_, kRowsMax - leaf_rows_) * width_;
        in_isa<MoreRowsLoop<R>>(x, count / width_, width_, leaf);
      } else if (leaf_rows_ == 0) {
        std::copy_n(x, count, leaf + column_);
      } else {
        in_isa<MoreRowsLoop<R>>(x, int64_t{1}, count, leaf + column_);
      }
      x += count;
      n -= count;
      column_ += count;
      leaf_rows_ += column_ / width_;
      column_ %= width_;
      if (leaf_rows_ == kRowsMax) end_leaf();
    }
  }

  // Requires: at least one row has come, and each as a whole.
  void finish(T* y) {
    if (leaf_rows_ > 0) ++depth_;
    while (depth_ > 1) join_last();
    std::copy_n(rows_, width_, y);
  }

 private:
  void end_leaf() {
    leaf_rows_ = 0;
    ++depth_;
    for (int64_t n = ++leaves_; n % 2 == 0; n /= 2) join_last();
  }
  void join_last() {
    --depth_;
    T* const a = rows_ + (depth_ - 1) * width_;
    in_isa<MoreRowsLoop<R>>(a + width_, int64_t{1}, width_, a);
  }

  const int64_t width_;
  int64_t column_ = 0, leaf_rows_ = 0, leaves_ = 0;
  int64_t depth_ = 0;  // subtrees that wait; behind them the leaf that grows
  // Of 16 * 2^k rows at most k + 1 are here; k >= 1, and half as many rows have less than
  // kReducedPerJob elements.
  static constexpr int64_t kSpace = 3 * kTakenColumnsMax;
  T rows_[kSpace];
};

template <class R, class T>
void reduce_taken_middle(KernelContext& ctx, const ReduceView& view, T* y) {
  const int64_t reduced = view.reduced, inner = view.inner;
  const int64_t width = std::min(kTakenColumnsMax, inner), blocks = ceil_div(inner, width);
  const int64_t rows = rows_per_job(width), parts = ceil_div(reduced, rows);
  // Part `part` of all outer ones, columns from j on.
  const auto reduce = [&](int64_t part, int64_t j, T* to) {
    const int64_t o = part / parts, begin = part % parts * rows;
    const int64_t count = std::min(rows, reduced - begin), columns = std::min(width, inner - j);
    RowTree<R, T> tree(columns);
    const auto add = [&](const T* x, int64_t, int64_t n) { tree.add(x, n); };
    const int64_t first = (o * reduced + begin) * inner + j;
    if (columns == inner)
      ctx.take<T>(first, count * inner, inner <= KernelContext::kTakeUnitMax ? inner : 1, add);
    else
      for (int64_t r = 0; r < count; ++r) ctx.take<T>(first + r * inner, columns, 1, add);
    tree.finish(to);
  };
  if (parts == 1)
    return in_row_groups(ctx, view.outer * blocks, reduced * width,
                         [&, y](int64_t begin, int64_t n) {
                           for (int64_t i = begin; i < begin + n; ++i) {
                             const int64_t o = i / blocks, j = i % blocks * width;
                             reduce(o, j, y + o * inner + j);
                           }
                         });
  Tensor scratch = ctx.scratch(dtype_of<T>, Shape{view.outer, parts, inner});
  T* sums = scratch.mutable_data<T>();
  ctx.parallel(view.outer * parts * blocks, [&, sums](int64_t job) {
    const int64_t part = job / blocks, j = job % blocks * width;
    reduce(part, j, sums + part * inner + j);
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
  if (view.outer == 0 || view.inner == 0) return;
  if (!x && view.inner == 1) return reduce_taken_rows<R>(ctx, view.outer, view.reduced, y);
  if (!x) return reduce_taken_middle<R>(ctx, view, y);
  if (view.inner == 1)
    reduce_rows<R>(ctx, x, view, y);
  else
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
