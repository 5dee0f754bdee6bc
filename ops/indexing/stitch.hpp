// Shared by dynamic_stitch and its gradient. Their last inputs are n tensors of indices, then n
// parts: part m is [shape of indices m..., rest...], with the same `rest` for all.
#pragma once

#include "ops/support/indices.hpp"

namespace troupe {

// The number of parts after the first `before` inputs.
inline int part_count(int input_count, int before) { return (input_count - before) / 2; }

// For infer_dtypes: the dtype of the parts.
inline DType stitched_dtype(const InferContext& ctx, int before) {
  const int parts = part_count(ctx.input_count(), before);
  if (parts < 1 || ctx.input_count() != before + 2 * parts)
    throw ctx.error("wants as many parts as tensors of indices, got ", ctx.input_count() - before,
                    " of both together");
  for (int m = 0; m < parts; ++m) {
    require_index_dtype(ctx, before + m);
    const DType first = ctx.dtype(before + parts), other = ctx.dtype(before + parts + m);
    if (first != other)
      throw ctx.error("parts must have one dtype, got ", first, " and ", other,
                      "; cast one of them");
  }
  return ctx.dtype(before + parts);
}

// For infer_shapes: [-1, rest...]. Throws: Error if the parts do not fit their indices or each
// other.
inline Shape stitched_shape(const InferContext& ctx, int before) {
  const int parts = part_count(ctx.input_count(), before);
  std::vector<int64_t> y;
  for (int m = 0; m < parts; ++m) {
    const Shape &indices = ctx.input(before + m), &part = ctx.input(before + parts + m);
    const int outer = indices.ndim(), rest = part.ndim() - outer;
    bool fits = rest >= 0;
    for (int d = 0; fits && d < outer; ++d) fits = may_equal(indices[d], part[d]);
    if (!fits)
      throw ctx.error("part ", m, " is ", part, ", but its indices are ", indices,
                      "; it has their sizes first");
    if (m == 0) y.resize(static_cast<size_t>(rest) + 1, -1);
    fits = y.size() == static_cast<size_t>(rest) + 1;
    for (int d = 0; fits && d < rest; ++d) {
      int64_t& size = y[static_cast<size_t>(d) + 1];
      fits = may_equal(size, part[outer + d]);
      if (size < 0) size = part[outer + d];
    }
    if (!fits)
      throw ctx.error("part ", m, " is ", part, " for indices ", indices,
                      "; behind the sizes of the indices, all parts have the same sizes");
  }
  if (y.size() > Shape::kNdimMax)
    throw ctx.error("would have more than ", int{Shape::kNdimMax}, " dimensions");
  return Shape(y);
}

// The greatest index + 1. Throws: Error with the first index that is negative or too large.
inline int64_t stitched_rows(const KernelContext& ctx, int before) {
  constexpr int64_t kRowsMax = int64_t{1} << 40;  // more than any memory holds
  int64_t rows = 0;
  for (int m = 0; m < part_count(ctx.input_count(), before); ++m) {
    const Tensor& indices = ctx.input(before + m);
    with_indices(indices, [&](const auto* from) {
      for (int64_t i = 0; i < indices.size(); ++i) {
        if (from[i] < 0 || from[i] >= kRowsMax)
          throw ctx.error("index ", from[i], " (number ", i, " of part ", m,
                          ") is not in [0, 2^40); indices count from 0");
        rows = std::max<int64_t>(rows, from[i] + int64_t{1});
      }
    });
  }
  return rows;
}

}  // namespace troupe
