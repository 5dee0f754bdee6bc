// What of packed rows (troupe/ops/row_sparse.hpp) can be said without a look at their indices.
#pragma once

#include "troupe/ops/row_sparse.hpp"

namespace troupe {

// As unpack_rows(), but for the indices, which may be anything.
std::optional<PackedRows> unpack_head(const Tensor& packed, DType dtype, int64_t size);

}  // namespace troupe
