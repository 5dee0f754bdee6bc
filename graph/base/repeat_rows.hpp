// Rows of a gradient that each serve several indices: those of a sum over rows
// (placement/passes/push_rows_once.cpp). Implemented in graph/base/packed_rows.cpp.
#pragma once

#include <cstdint>

#include "troupe/tensor.hpp"

namespace troupe {

// True if k rows can serve n indices: each one index, or each the same number of consecutive ones.
inline bool may_repeat(int64_t k, int64_t n) { return k == n || (k > 0 && n > 0 && n % k == 0); }
// [k, row...] as [n, row...]: each row n / k times. The same tensor if k is n. Requires:
// may_repeat(k, n).
Tensor repeat_rows(const Tensor& values, int64_t n);

}  // namespace troupe
