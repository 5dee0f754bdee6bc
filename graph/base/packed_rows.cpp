// Packs gradients by rows into one tensor (format: troupe/ops/parameters.hpp) and unpacks them.
// Also repeats rows that serve several indices (graph/base/repeat_rows.hpp).
#include "graph/base/packed_rows.hpp"

#include <cstring>

#include "graph/base/row_indices.hpp"
#include "graph/base/repeat_rows.hpp"
#include "troupe/op.hpp"

namespace troupe {
namespace {

constexpr int64_t kHead = 2;  // numbers before the indices

}  // namespace

Tensor pack_rows(int64_t row_size, std::span<const int64_t> indices, const void* values,
                 DType dtype) {
  const int64_t count = static_cast<int64_t>(indices.size());
  const int64_t index_bytes = count * int64_t{sizeof(int64_t)};
  const int64_t value_bytes = count * row_size * size_of(dtype);
  const int64_t head[kHead] = {row_size, count};
  Tensor packed = Tensor::empty(
      DType::u8, Shape{static_cast<int64_t>(sizeof head) + index_bytes + value_bytes});
  uint8_t* to = packed.mutable_data<uint8_t>();
  std::memcpy(to, head, sizeof head);
  if (index_bytes > 0)
    std::memcpy(to + sizeof head, indices.data(), static_cast<size_t>(index_bytes));
  if (value_bytes > 0)
    std::memcpy(to + sizeof head + index_bytes, values, static_cast<size_t>(value_bytes));
  return packed;
}

std::optional<PackedRows> unpack_head(const Tensor& packed, DType dtype, int64_t size) {
  int64_t head[kHead];
  if (!packed.defined() || !packed.on_host() || packed.dtype() != DType::u8 ||
      packed.size() < static_cast<int64_t>(sizeof head))
    return std::nullopt;
  const uint8_t* at = packed.data<uint8_t>();
  std::memcpy(head, at, sizeof head);
  const auto [row_size, count] = head;
  // Each bound is checked before it is used in a computation, so that nothing overflows.
  const int64_t bytes = packed.size() - static_cast<int64_t>(sizeof head);
  if (row_size < 1 || row_size > size || size % row_size != 0 || count < 0 ||
      count > bytes / int64_t{sizeof(int64_t)})
    return std::nullopt;
  const int64_t value_bytes = bytes - count * int64_t{sizeof(int64_t)};
  const int64_t row_bytes = row_size * size_of(dtype);
  if (value_bytes % row_bytes != 0 || value_bytes / row_bytes != count) return std::nullopt;
  return read_rows(packed);
}

std::optional<PackedRows> unpack_rows(const Tensor& packed, DType dtype, int64_t size) {
  const auto found = unpack_head(packed, dtype, size);
  if (!found) return std::nullopt;
  const auto rows = static_cast<int64_t>(found->indices.size());
  const auto last = static_cast<uint64_t>(size / found->row_size) - 1;
  if (!RowRangeLoop::run(found->indices.data(), rows, last)) return std::nullopt;
  return found;
}

Tensor repeat_rows(const Tensor& values, int64_t n) {
  const int64_t k = values.dim(0);
  if (k == n) return values;
  const Shape shape = values.shape();
  std::vector<int64_t> sizes(shape.begin(), shape.end());
  sizes[0] = n;
  Tensor all = Tensor::empty(values.dtype(), Shape(sizes));
  const auto row_bytes = static_cast<size_t>(values.byte_size() / k);
  const char* from = static_cast<const char*>(values.raw());
  char* to = static_cast<char*>(all.mutable_raw());
  for (int64_t i = 0; i < n; ++i, to += row_bytes)
    if (row_bytes > 0)
      std::memcpy(to, from + static_cast<size_t>(i / (n / k)) * row_bytes, row_bytes);
  return all;
}

PackedRows read_rows(const Tensor& packed) {
  const int64_t* at = reinterpret_cast<const int64_t*>(packed.data<uint8_t>());
  const int64_t *first = at + kHead, count = at[1];
  return {at[0], std::span(first, static_cast<size_t>(count)), first + count};
}

}  // namespace troupe
