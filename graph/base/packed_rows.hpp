// The wire form of a gradient by rows (troupe/ops/parameters.hpp).
#pragma once

#include <optional>
#include <span>

#include "troupe/tensor.hpp"

namespace troupe {

// The wire form of rows: one u8 tensor (no trained parameter is u8) with the size of a row and the
// number of rows, the indices, all i64, and the values.
Tensor pack_rows(int64_t row_size, std::span<const int64_t> indices, const void* values,
                 DType dtype);
struct PackedRows {
  int64_t row_size = 0;  // elements
  std::span<const int64_t> indices;
  const void* values = nullptr;  // [indices, row_size]
};
// Empty if `packed` is not a result of pack_rows() for rows of a tensor of `size` elements: indices
// out of range, or lengths that do not agree. The result lives as long as `packed`.
std::optional<PackedRows> unpack_rows(const Tensor& packed, DType dtype, int64_t size);
// The same, unchecked, for a tensor that unpack_rows() has accepted or pack_rows() has made.
PackedRows read_rows(const Tensor& packed);
// As unpack_rows(), but does not check the indices.
std::optional<PackedRows> unpack_head(const Tensor& packed, DType dtype, int64_t size);

}  // namespace troupe
