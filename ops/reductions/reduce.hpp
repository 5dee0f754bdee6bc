// Shared by reductions: shapes, and a reduction in a fixed order. The tree of partial results
// depends on the sizes alone, so the bits are the same on any thread; and it is shallow, so an f32
// sum of 2^20 numbers loses a few bits, not twenty. Elements are joined by a table of loops,
// compiled once beside its op (ops/reductions/reduction.hpp); the tree knows no dtype.
#pragma once

#include "ops/support/axes.hpp"
#include "ops/support/elementwise.hpp"
#include "ops/support/row_groups.hpp"
#include "ops/support/strided.hpp"

namespace troupe {

// For an op whose kernel reads its input through reduce_view() and reduce_elements() alone.
template <void (*kRun)(KernelContext&), class... Ts>
std::vector<Kernel> reduce_kernels() {
  return {{.dtype = dtype_of<Ts>, .run = kRun, .takes = true}...};
}

// ---- shapes ----

// The shape of x without the axes in the set, or with size 1 in their place.
Shape reduced_shape(const Shape& x, uint32_t axes, bool keep_dims);

template <class Context>
uint32_t reduced_axes(const Context& ctx, int ndim) {
  return checked_axes(ctx, ctx.template attr<std::vector<int64_t>>("axes"), ndim);
}

std::vector<AttrSpec> reduce_attrs();
Attrs to_attrs(const ReduceOptions& options);
ReduceOptions reduce_options(const Node& node);
std::vector<Shape> infer_reduced(const InferContext& ctx);

// An op that reduces x over `axes`.
inline Op reduce_op(const char* name, decltype(Op::infer_shapes) infer_shapes,
                    decltype(Op::gradient) gradient, std::vector<Kernel> kernels,
                    Precision precision) {
  return {.name = name,
          .inputs = {"x"},
          .outputs = {"y"},
          .attrs = reduce_attrs(),
          .infer_shapes = infer_shapes,
          .gradient = gradient,
          .kernels = std::move(kernels),
          .precision = precision};
}

// A tensor as [outer, reduced, inner]; a tensor that has no such view is first copied to [outer,
// reduced].
struct ReduceView {
  int64_t outer = 1, reduced = 1, inner = 1;
  const void* x = nullptr;  // null: the elements are taken part by part, in this order
  Tensor copy;              // holds the elements of x if they were copied
  Tensor sums;              // [outer, parts]: memory for partial results, if allocated early
};
ReduceView reduce_view(KernelContext& ctx, const Tensor& x, uint32_t axes);

// ---- the fixed tree ----

constexpr int64_t kRunMax = 512;  // elements of a leaf
constexpr int64_t kRowsMax = 16;  // rows of a leaf
// columns reduced together: partial rows fit the nearest cache
constexpr int64_t kColumnsMax = 256;
// nearest cache
constexpr int64_t kReducedPerJob = 1 << 16;  // elements: 20 us or more if read from memory
static_assert(kReducedPerJob % kRunMax == 0);

// The largest unit * 2^k below n. Requires: n > unit.
inline int64_t split_point(int64_t n, int64_t unit) {
  int64_t half = unit;
  while (2 * half < n) half *= 2;
  return half;
}

// Joins `count` >= 1 consecutive rows of `width` into the first of them: the upper part of the
// tree, above subtrees of equal size, of which the last one may be smaller. Joins neighbours first,
// then pairs, and so on. R::apply joins two elements.
template <class R, class T>
void join_parts(T* parts, int64_t count, int64_t width) {
  for (int64_t step = 1; step < count; step *= 2)
    for (int64_t i = 0; i + step < count; i += 2 * step) {
      T *a = parts + i * width, *b = a + step * width;
      for (int64_t j = 0; j < width; ++j) a[j] = R::apply(a[j], b[j]);
    }
}

inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// The rows of `width` elements in one job: whole subtrees of the tree over rows, kRowsMax * 2^k.
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

// Joins elements of one dtype. All addresses point to elements of that dtype.
struct Reduction {
  DType dtype = DType::none;
  // y[i] = leaf i of n elements, `run` elements each. Requires: 1 <= run <= kRunMax; n % run == 0
  // if run is below 16.
  void (*leaves)(const void* x, int64_t n, int64_t run, void* y) = nullptr;
  // Joins y[j] with element j of each of `rows` rows, one after the other, for j < columns.
  void (*rows)(const void* x, int64_t rows, int64_t stride, int64_t columns, void* y) = nullptr;
  void (*parts)(void* parts, int64_t count, int64_t width) = nullptr;  // join_parts()
  void (*nothing)(void* y, int64_t n) = nullptr;  // y[i] = the result for no elements
};

// The reductions of the ops, each for the dtypes of its op; compiled in
// ops/reductions/reduce_sum.cpp and reduce_extremes.cpp. For no
// elements they give 0, 1, the lowest and the highest number (infinite for floats).
const Reduction& sum_reduction(DType dtype);
const Reduction& product_reduction(DType dtype);
const Reduction& greatest_reduction(DType dtype);
const Reduction& least_reduction(DType dtype);

// y: [outer, inner]. Make the output before the call.
void reduce_elements(KernelContext& ctx, const Reduction& reduction, const ReduceView& view,
                     void* y);

// The kernel of an op that reduces input 0 over its `axes`.
template <const Reduction& (*kOf)(DType)>
void run_reduction(KernelContext& ctx) {
  const Tensor& x = ctx.input(0);
  const ReduceView view = reduce_view(ctx, x, reduced_axes(ctx, x.ndim()));
  reduce_elements(ctx, kOf(x.dtype()), view, ctx.output().mutable_raw());
}

}  // namespace troupe
