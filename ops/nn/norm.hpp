// Shared by layer_norm, rms_norm, batch_norm and their gradients: shape rules and sums over rows.
//   x: [..., c]   gamma, beta, mean, variance: [c]
#pragma once

#include <bit>
#include <cmath>

#include "ops/elementwise/composition.hpp"
#include "ops/reductions/reduce.hpp"
#include "ops/support/row.hpp"

namespace troupe {

// ---- shape rules ----

inline std::vector<AttrSpec> epsilon_attr(double epsilon) {
  return {{"epsilon", AttrKind::real, epsilon}};
}

// Checks the inputs: number `x` is [..., c], those from `vectors` on are [c], and those before
// `vectors` have the shape of x. Throws: Error if one does not fit. Returns the shape of x, with c
// taken from the vectors if x does not know it.
inline Shape require_channels(const InferContext& ctx, int x, int vectors, int ndim_min) {
  require_kernel(ctx, ctx.dtype(0));
  if (!(ctx.attr<double>("epsilon") >= 0))
    throw ctx.error("wants epsilon >= 0, got ", ctx.attr<double>("epsilon"));
  Shape shape = ctx.input(x);
  if (shape.ndim() < ndim_min)
    throw ctx.error("wants x [..., channels] of at least ", ndim_min,
                    ndim_min == 1 ? " dimension" : " dimensions", ", got ", shape);
  const int last = shape.ndim() - 1;
  for (int i = 0; i < ctx.input_count(); ++i) {
    const Shape& one = ctx.input(i);
    if (i < vectors && !may_equal(one, shape))
      throw ctx.error("wants dy in the shape of x, got ", one, " and ", shape);
    if (i < vectors) continue;
    if (one.ndim() != 1 || !may_equal(one[0], shape[last]))
      throw ctx.error("wants one ", ctx.node().op->inputs[static_cast<size_t>(i)],
                      " for each channel of ", shape, ", got ", one);
    if (shape[last] < 0) shape.set(last, one[0]);
  }
  return shape;
}

inline std::vector<int64_t> leading_axes(Output x) {
  std::vector<int64_t> axes;
  for (int d = 0; d + 1 < x.shape().ndim(); ++d) axes.push_back(d);
  return axes;
}

// ---- sums over rows ----

// sums[0, width) over `rows` rows from `begin`: one subtree of sum_rows(). `spare` has spare_size()
// elements.
template <class T, class Leaf>
void sum_subtree(int64_t begin, int64_t rows, int64_t width, T* sums, T* spare, const Leaf& leaf) {
  if (rows <= kRowsMax) return leaf(begin, rows, sums);
  const int64_t half = split_point(rows, kRowsMax);
  sum_subtree(begin, half, width, sums, spare, leaf);
  sum_subtree(begin + half, rows - half, width, spare, spare + width, leaf);
  for (int64_t j = 0; j < width; ++j) sums[j] += spare[j];
}

inline int64_t spare_size(int64_t rows, int64_t width) {
  return width * (1 + std::bit_width(static_cast<uint64_t>(rows / kRowsMax)));
}

// sums[0, width) over all rows, as a tree whose form depends on the number of rows alone.
// leaf(begin, n, sums, scratch) sets the sums over n <= kRowsMax rows; it has `scratch_size`
// elements of scratch.
template <class T, class Leaf>
void sum_rows(KernelContext& ctx, int64_t rows, int64_t width, int64_t scratch_size, T* sums,
              const Leaf& leaf) {
  const int64_t group = rows_per_job(std::max<int64_t>(1, width));
  const int64_t jobs = std::max<int64_t>(1, ceil_div(rows, group));
  const int64_t spare = spare_size(std::min(rows, group), width);
  Tensor memory = ctx.scratch(dtype_of<T>, Shape{jobs * (width + spare + scratch_size)});
  T *parts = memory.mutable_data<T>(), *spares = parts + jobs * width;
  ctx.parallel(jobs, [=, &leaf](int64_t job) {
    T* of_job = spares + job * (spare + scratch_size);
    const auto own_leaf = [&](int64_t begin, int64_t n, T* to) {
      leaf(begin, n, to, of_job + spare);
    };
    sum_subtree(job * group, std::min(group, rows - job * group), width, parts + job * width,
                of_job, own_leaf);
  });
  join_parts<Add>(parts, jobs, width);
  std::copy_n(parts, width, sums);
}

}  // namespace troupe
