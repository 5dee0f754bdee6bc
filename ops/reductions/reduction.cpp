// The tree of a reduction, for elements of any size; documented in ops/reductions/reduce.hpp. It
// cuts the work into jobs by sizes alone, and joins elements with a table's loops
// (ops/reductions/reduction.hpp).
#include "devices/kernel_call.hpp"
#include "ops/reductions/reduce.hpp"

namespace troupe {
namespace {

constexpr int64_t kWideColumns = 2048;  // of wide rows: runs long enough for the prefetcher
constexpr int64_t kWideRows = 128;  // in a job of wide rows: a whole subtree of the tree over rows
constexpr int64_t kNarrow = 16;     // so few columns that the cost of calls counts
constexpr int64_t kNarrowLeavesMax = 4096;  // elements of leaves, reduced before they are joined
constexpr int64_t kTakenColumnsMax = 2048;  // reduced together where they are produced: long runs

// Memory of a job, on its stack, for elements of any dtype.
template <int64_t kCount>
struct Elements {
  alignas(64) char bytes[kCount * static_cast<int64_t>(sizeof(int64_t))];
};
using Leaves = Elements<kReducedPerJob / kRunMax>;  // of one job
// For 16 * 2^k rows of a job, at most k + 1 partial rows are kept at once; k >= 1, and half as many
// rows have less than kReducedPerJob elements. For wide rows, k is 3 and one of the partial rows is
// the result.
using PartialRows = Elements<3 * kTakenColumnsMax>;
static_assert(kNarrowLeavesMax + kRowsMax * kNarrow <= 3 * kTakenColumnsMax);
static_assert(kWideColumns == kTakenColumnsMax && kWideRows == kRowsMax << 3);

// A table of loops, with address arithmetic for its dtype.
class Joiner {
 public:
  const Reduction& loops;

  explicit Joiner(const Reduction& reduction)
      : loops(reduction), bytes_(size_of(reduction.dtype)) {}

  const char* at(const void* x, int64_t i) const {
    return static_cast<const char*>(x) + i * bytes_;
  }
  char* at(void* y, int64_t i) const { return static_cast<char*>(y) + i * bytes_; }
  void copy(const void* x, int64_t n, void* y) const {
    std::memcpy(y, x, static_cast<size_t>(n * bytes_));
  }
  Tensor scratch(KernelContext& ctx, const Shape& shape) const {
    return ctx.scratch(loops.dtype, shape);
  }

  // y[j] = the reduction of column j of [rows, stride], rows <= kRowsMax.
  void reduce_leaf(const void* x, int64_t rows, int64_t stride, int64_t columns, void* y) const {
    copy(x, columns, y);
    loops.rows(at(x, stride), rows - 1, stride, columns, y);
  }
  // The same for any number of rows. spare: a row of `columns` for each level of the tree above its
  // leaves, or kNarrowLeavesMax elements after the rows of the upper levels.
  void reduce_columns(const void* x, int64_t rows, int64_t stride, int64_t columns, void* y,
                      void* spare) const {
    if (rows <= kRowsMax) return reduce_leaf(x, rows, stride, columns, y);
    const int64_t leaves = ceil_div(rows, kRowsMax);
    // All leaves are joined by one call.
    if (columns <= kNarrow && leaves * columns <= kNarrowLeavesMax) {
      for (int64_t i = 0; i < leaves; ++i)
        reduce_leaf(at(x, i * kRowsMax * stride), std::min(kRowsMax, rows - i * kRowsMax), stride,
                    columns, at(spare, i * columns));
      loops.parts(spare, leaves, columns);
      return copy(spare, columns, y);
    }
    const int64_t half = split_point(rows, kRowsMax);
    reduce_columns(x, half, stride, columns, y, spare);
    reduce_columns(at(x, half * stride), rows - half, stride, columns, spare, at(spare, columns));
    loops.rows(spare, 1, columns, columns, y);
  }

 private:
  const int64_t bytes_;
};

// Calls f(x, at, n) for the elements [begin, begin + count), in consecutive parts of whole units:
// in one part if they are in memory, otherwise as they are produced.
template <class F>
void take(const KernelContext& ctx, const Joiner& join, const ReduceView& view, int64_t begin,
          int64_t count, int64_t unit, const F& f) {
  if (view.x)
    f(join.at(view.x, begin), begin, count);
  else
    KernelCall::of(ctx).take<char>(begin, count, unit, f);
}

// y = the reduction of elements [begin, begin + n), with 1 <= n <= kReducedPerJob.
void reduce_run(const KernelContext& ctx, const Joiner& join, const ReduceView& view, int64_t begin,
                int64_t n, void* y) {
  Leaves leaves;
  take(ctx, join, view, begin, n, kRunMax, [&](const char* x, int64_t at, int64_t count) {
    join.loops.leaves(x, count, kRunMax, join.at(leaves.bytes, (at - begin) / kRunMax));
  });
  join.loops.parts(leaves.bytes, ceil_div(n, kRunMax), 1);
  join.copy(leaves.bytes, 1, y);
}

// Reduces [outer, reduced] to y [outer].
void reduce_rows(KernelContext& ctx, const Joiner& join, const ReduceView& view, void* y) {
  const int64_t outer = view.outer, reduced = view.reduced;
  if (reduced <= kRunMax)
    return in_row_groups(ctx, outer, reduced, [&, y](int64_t first, int64_t rows) {
      take(ctx, join, view, first * reduced, rows * reduced, reduced,
           [&, y](const char* x, int64_t at, int64_t count) {
             join.loops.leaves(x, count, reduced, join.at(y, at / reduced));
           });
    });
  if (reduced <= kReducedPerJob)
    return in_row_groups(ctx, outer, reduced, [&, y](int64_t first, int64_t rows) {
      for (int64_t o = first; o < first + rows; ++o)
        reduce_run(ctx, join, view, o * reduced, reduced, join.at(y, o));
    });
  const int64_t parts = ceil_div(reduced, kReducedPerJob);
  Tensor scratch = view.sums.defined() ? view.sums : join.scratch(ctx, Shape{outer, parts});
  void* const sums = scratch.mutable_raw();
  ctx.parallel(outer * parts, [&, sums](int64_t job) {
    const int64_t begin = job % parts * kReducedPerJob;
    reduce_run(ctx, join, view, job / parts * reduced + begin,
               std::min(kReducedPerJob, reduced - begin), join.at(sums, job));
  });
  for (int64_t o = 0; o < outer; ++o) {
    join.loops.parts(join.at(sums, o * parts), parts, 1);
    join.copy(join.at(sums, o * parts), 1, join.at(y, o));
  }
}

// Reduces [outer, parts of `rows` rows, blocks of `width` columns] into y [outer, inner];
// reduce(index of the part among all outer ones, first column, to) reduces one of them.
template <class Reduce>
void reduce_parts(KernelContext& ctx, const Joiner& join, const ReduceView& view, int64_t rows,
                  int64_t width, void* y, const Reduce& reduce) {
  const int64_t inner = view.inner, blocks = ceil_div(inner, width);
  const int64_t parts = ceil_div(view.reduced, rows);
  if (parts == 1)
    return in_row_groups(ctx, view.outer * blocks, view.reduced * width,
                         [&, y](int64_t first, int64_t count) {
                           for (int64_t i = first; i < first + count; ++i) {
                             const int64_t o = i / blocks, j = i % blocks * width;
                             reduce(o, j, join.at(y, o * inner + j));
                           }
                         });
  Tensor scratch = join.scratch(ctx, Shape{view.outer, parts, inner});
  void* const sums = scratch.mutable_raw();
  ctx.parallel(view.outer * parts * blocks, [&, sums](int64_t job) {
    const int64_t part = job / blocks, j = job % blocks * width;
    reduce(part, j, join.at(sums, part * inner + j));
  });
  for (int64_t o = 0; o < view.outer; ++o) {
    void* const of_outer = join.at(sums, o * parts * inner);
    join.loops.parts(of_outer, parts, inner);
    join.copy(of_outer, inner, join.at(y, o * inner));
  }
}

// Handles inner > 1. Blocks and parts change no bit.
void reduce_middle(KernelContext& ctx, const Joiner& join, const ReduceView& view, void* y) {
  const int64_t reduced = view.reduced, inner = view.inner;
  const bool wide = inner >= kWideColumns;
  const int64_t width = std::min(wide ? kWideColumns : kColumnsMax, inner);
  const int64_t rows = wide ? kWideRows : rows_per_job(width), parts = ceil_div(reduced, rows);
  reduce_parts(ctx, join, view, rows, width, y, [&](int64_t part, int64_t j, void* to) {
    const int64_t begin = part % parts * rows;
    PartialRows spare;
    join.reduce_columns(join.at(view.x, (part / parts * reduced + begin) * inner + j),
                        std::min(rows, reduced - begin), inner, std::min(width, inner - j), to,
                        spare.bytes);
  });
}

// The tree over consecutive rows of `width` columns: subtrees of 1, 2, 4 ... leaves of kRowsMax
// rows are kept until their neighbour is complete. For at most rows_per_job(width) rows.
class RowTree {
 public:
  RowTree(const Joiner& join, int64_t width) : join_(join), width_(width) {}

  // Adds elements of the rows in their order; each part begins where the last one ended.
  void add(const char* x, int64_t n) {
    while (n > 0) {
      char* const leaf = row(depth_);
      int64_t count = std::min(n, width_ - column_);
      if (column_ == 0 && leaf_rows_ > 0 && n >= width_) {  // whole rows at once
        count = std::min(n / width_, kRowsMax - leaf_rows_) * width_;
        join_.loops.rows(x, count / width_, width_, width_, leaf);
      } else if (leaf_rows_ == 0) {
        join_.copy(x, count, join_.at(leaf, column_));
      } else {
        join_.loops.rows(x, 1, count, count, join_.at(leaf, column_));
      }
      x = join_.at(x, count);
      n -= count;
      column_ += count;
      leaf_rows_ += column_ / width_;
      column_ %= width_;
      if (leaf_rows_ == kRowsMax) end_leaf();
    }
  }

  // Requires: at least one row was added, and only whole rows.
  void finish(void* y) {
    if (leaf_rows_ > 0) ++depth_;
    while (depth_ > 1) join_last();
    join_.copy(row(0), width_, y);
  }

 private:
  char* row(int64_t i) { return join_.at(static_cast<void*>(rows_.bytes), i * width_); }
  void end_leaf() {
    leaf_rows_ = 0;
    ++depth_;
    for (int64_t n = ++leaves_; n % 2 == 0; n /= 2) join_last();
  }
  void join_last() {
    --depth_;
    join_.loops.rows(row(depth_), 1, width_, width_, row(depth_ - 1));
  }

  const Joiner& join_;
  const int64_t width_;
  int64_t column_ = 0, leaf_rows_ = 0, leaves_ = 0;
  int64_t depth_ = 0;  // complete subtrees; the growing leaf follows them
  PartialRows rows_;
};

// reduce_middle for elements that are produced part by part: other jobs, the same tree.
void reduce_taken_middle(KernelContext& ctx, const Joiner& join, const ReduceView& view, void* y) {
  const int64_t reduced = view.reduced, inner = view.inner;
  const int64_t width = std::min(kTakenColumnsMax, inner), rows = rows_per_job(width);
  const int64_t parts = ceil_div(reduced, rows);
  reduce_parts(ctx, join, view, rows, width, y, [&](int64_t part, int64_t j, void* to) {
    const int64_t begin = part % parts * rows, count = std::min(rows, reduced - begin);
    const int64_t columns = std::min(width, inner - j);
    RowTree tree(join, columns);
    const auto add = [&](const char* x, int64_t, int64_t n) { tree.add(x, n); };
    const int64_t first = (part / parts * reduced + begin) * inner + j;
    if (columns == inner)
      KernelCall::of(ctx).take<char>(first, count * inner,
                                     inner <= KernelCall::kTakeUnitMax ? inner : 1, add);
    else
      for (int64_t r = 0; r < count; ++r)
        KernelCall::of(ctx).take<char>(first + r * inner, columns, 1, add);
    tree.finish(to);
  });
}

}  // namespace

void reduce_elements(KernelContext& ctx, const Reduction& reduction, const ReduceView& view,
                     void* y) {
  if (view.outer == 0 || view.inner == 0) return;
  if (view.reduced == 0) return reduction.nothing(y, view.outer * view.inner);
  const Joiner join(reduction);
  if (view.inner == 1)
    reduce_rows(ctx, join, view, y);
  else
    view.x ? reduce_middle(ctx, join, view, y) : reduce_taken_middle(ctx, join, view, y);
}

}  // namespace troupe
