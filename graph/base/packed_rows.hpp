// The checks of packed rows (troupe/ops/parameters.hpp) that do not read their indices.
#pragma once

#include "troupe/ops/parameters.hpp"

namespace troupe {

// As unpack_rows(), but does not check the indices.
std::optional<PackedRows> unpack_head(const Tensor& packed, DType dtype, int64_t size);

}  // namespace troupe
