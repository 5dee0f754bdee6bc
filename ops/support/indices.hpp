// Checks of indices, for ops that choose or place elements.
#pragma once

#include "ops/support/node.hpp"

namespace troupe {

inline void require_index_dtype(const InferContext& ctx, int i) {
  if (ctx.dtype(i) != DType::i32 && ctx.dtype(i) != DType::i64)
    throw ctx.error("wants indices of i32 or i64, got ", ctx.dtype(i), "; cast them");
}

// infer_dtypes for an op with one output of input 0's dtype, and indices as input 1.
inline std::vector<DType> infer_dtype_with_indices(const InferContext& ctx) {
  require_index_dtype(ctx, 1);
  return {ctx.dtype(0)};
}
// The same, with an input 2 that has the dtype of input 0.
inline std::vector<DType> infer_dtype_around_indices(const InferContext& ctx) {
  require_index_dtype(ctx, 1);
  if (ctx.dtype(0) != ctx.dtype(2))
    throw ctx.error(ctx.node().op->inputs[0], " and ", ctx.node().op->inputs[2],
                    " must have one dtype, got ", ctx.dtype(0), " and ", ctx.dtype(2),
                    "; cast one of them");
  return {ctx.dtype(0)};
}

// Throws: Error with the first index outside [0, size), its position in row-major order, and the
// size.
template <class I>
void check_indices(const KernelContext& ctx, const I* indices, int64_t count, int64_t size) {
  for (int64_t i = 0; i < count; ++i)
    if (indices[i] < 0 || indices[i] >= size)
      throw ctx.error("index ", indices[i], " (number ", i, " of ", count, ") is not in [0, ", size,
                      "); indices count from 0");
}

// Calls f with a pointer to the indices, which are i32 or i64.
template <class F>
void with_indices(const Tensor& indices, F f) {
  if (indices.dtype() == DType::i32)
    f(indices.data<int32_t>());
  else
    f(indices.data<int64_t>());
}

}  // namespace troupe
