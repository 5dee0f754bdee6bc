// Cuts row gradients into slices, merges them, and gathers the rows of a read.
#include "training/rules/row_slices.hpp"

#include <algorithm>
#include <cstring>

#include "devices/threads/isa.hpp"
#include "graph/base/packed_rows.hpp"
#include "graph/base/row_indices.hpp"
#include "graph/base/repeat_rows.hpp"

namespace troupe {
namespace {

// T: any type of the elements' size.
template <class T>
Tensor rows_of_slice(const PackedRows& rows, DType dtype, int64_t begin, int64_t end) {
  const T* values = static_cast<const T*>(rows.values);
  const int64_t row = rows.row_size;
  const bool whole = begin % row == 0 && end % row == 0;
  std::vector<int64_t> indices;
  std::vector<T> found;
  for (size_t i = 0; i < rows.indices.size(); ++i, values += row) {
    const int64_t at = rows.indices[i] * row;
    const int64_t first = std::max(at, begin), last = std::min(at + row, end);
    if (first >= last) continue;
    found.insert(found.end(), values + (first - at), values + (last - at));
    if (whole) indices.push_back((at - begin) / row);
    for (int64_t e = first; !whole && e < last; ++e) indices.push_back(e - begin);
  }
  return pack_rows(whole ? row : 1, indices, found.data(), dtype);
}

// Copies from the last index to the first: an update that follows in ascending order starts with
// the rows that are still in the cache. Four at a time, as the loop itself would cost as much as
// the copy. Returns false at the first index that is out of range.
template <class T>
bool copy_numbers(const void* x, uint64_t count, std::span<const int64_t> indices, void* y) {
  const T* from = static_cast<const T*>(x);
  T* to = static_cast<T*>(y);
  size_t i = indices.size();
  const auto at = [&](size_t back) { return static_cast<uint64_t>(indices[i - back]); };
  for (; i % 4 != 0; --i) {
    const uint64_t a = at(1);
    if (a >= count) return false;
    to[i - 1] = from[a];
  }
  for (; i > 0; i -= 4) {
    const uint64_t a = at(1), b = at(2), c = at(3), d = at(4);
    if (a >= count || b >= count || c >= count || d >= count) return false;
    to[i - 1] = from[a];
    to[i - 2] = from[b];
    to[i - 3] = from[c];
    to[i - 4] = from[d];
  }
  return true;
}

// Returns false if an index is outside of [0, count); then the contents of `out` are undefined.
bool copy_rows(const Tensor& whole, int64_t count, const Tensor& indices, int64_t row_bytes,
               Tensor& out) {
  const std::span<const int64_t> list = indices.values<int64_t>();
  if (count == 0 || out.size() == 0) return are_rows(list, count);
  const char* from = static_cast<const char*>(whole.raw());
  char* to = static_cast<char*>(out.mutable_raw());
  const auto rows = static_cast<uint64_t>(count);
  if (row_bytes == 4) return copy_numbers<uint32_t>(from, rows, list, to);
  if (row_bytes == 8) return copy_numbers<uint64_t>(from, rows, list, to);
  if (!are_rows(list, count)) return false;
  for (const int64_t index : list) {
    std::memcpy(to, from + index * row_bytes, static_cast<size_t>(row_bytes));
    to += row_bytes;
  }
  return true;
}

template <class T>
Tensor with_all_rows(const PackedRows& rows, int64_t size) {
  Tensor all = Tensor::zeros(dtype_of<T>, Shape{size});
  const T* values = static_cast<const T*>(rows.values);
  T* to = all.mutable_data<T>();
  for (const int64_t index : rows.indices) {
    for (int64_t j = 0; j < rows.row_size; ++j) to[index * rows.row_size + j] += values[j];
    values += rows.row_size;
  }
  return all;
}

// The same elements as rows of one element each.
template <class T>
Tensor as_elements(const PackedRows& rows) {
  std::vector<int64_t> indices;
  for (const int64_t index : rows.indices)
    for (int64_t j = 0; j < rows.row_size; ++j) indices.push_back(index * rows.row_size + j);
  return pack_rows(1, indices, rows.values, dtype_of<T>);
}

template <class T>
Tensor mean_by_rows(std::span<const Contribution> gradients) {
  std::vector<Tensor> kept;
  std::vector<PackedRows> all;
  for (const Contribution& c : gradients) all.push_back(rows_in(c.gradient, c.rows));
  // Programs may be cut differently; then only single elements are common to all.
  const auto other = [&](const PackedRows& r) { return r.row_size != all[0].row_size; };
  if (std::any_of(all.begin(), all.end(), other))
    for (PackedRows& rows : all) {
      kept.push_back(as_elements<T>(rows));
      rows = read_rows(kept.back());
    }
  struct Row {
    int64_t index;
    const T* values;
  };
  const int64_t width = all[0].row_size;
  std::vector<Row> rows;
  for (const PackedRows& one : all)
    for (size_t i = 0; i < one.indices.size(); ++i)
      rows.push_back(
          {one.indices[i], static_cast<const T*>(one.values) + static_cast<int64_t>(i) * width});
  // Entries of one row stay in replica order.
  std::stable_sort(rows.begin(), rows.end(),
                   [](const Row& a, const Row& b) { return a.index < b.index; });
  std::vector<int64_t> indices;
  std::vector<T> sums;
  sums.reserve(rows.size() * static_cast<size_t>(width));
  for (const Row& row : rows) {
    if (indices.empty() || indices.back() != row.index) {
      indices.push_back(row.index);
      sums.insert(sums.end(), row.values, row.values + width);
      continue;
    }
    T* sum = sums.data() + static_cast<int64_t>(sums.size()) - width;
    for (int64_t j = 0; j < width; ++j) sum[j] += row.values[j];
  }
  const T count = static_cast<T>(gradients.size());
  for (T& sum : sums) sum /= count;
  return pack_rows(width, indices, sums.data(), dtype_of<T>);
}

}  // namespace

bool are_rows(std::span<const int64_t> indices, int64_t count) {
  if (count == 0) return indices.empty();
  return in_isa<RowRangeLoop>(indices.data(), static_cast<int64_t>(indices.size()),
                              static_cast<uint64_t>(count) - 1);
}

bool are_packed_rows(const Tensor& packed, DType dtype, int64_t size) {
  const auto rows = unpack_head(packed, dtype, size);
  return rows && are_rows(rows->indices, size / rows->row_size);
}

bool are_like_rows(const Tensor& indices, const Tensor& values, DType dtype, int64_t size) {
  if (indices.dtype() != DType::i64 || indices.ndim() != 1 || !indices.on_host()) return false;
  if (values.dtype() != dtype || values.ndim() != 2 || !values.on_host()) return false;
  return may_repeat(values.dim(0), indices.size()) && values.dim(1) > 0 &&
         size % values.dim(1) == 0;
}

PackedRows rows_in(const Tensor& gradient, const Tensor& indices) {
  if (!indices.defined()) return read_rows(gradient);
  return {gradient.dim(1), indices.values<int64_t>(), gradient.raw()};
}

Tensor rows_of_slice(const PackedRows& rows, DType dtype, int64_t begin, int64_t end) {
  switch (size_of(dtype)) {
    case 1:
      return rows_of_slice<uint8_t>(rows, dtype, begin, end);
    case 2:
      return rows_of_slice<uint16_t>(rows, dtype, begin, end);
    case 4:
      return rows_of_slice<uint32_t>(rows, dtype, begin, end);
    case 8:
      return rows_of_slice<uint64_t>(rows, dtype, begin, end);
  }
  throw InternalError("no elements of ", dtype, " are cut");
}

Tensor rows_of_slice(const Tensor& packed, DType dtype, int64_t size, int64_t begin, int64_t end) {
  if (begin == 0 && end == size) return packed;
  return rows_of_slice(read_rows(packed), dtype, begin, end);
}

Tensor with_all_rows(const PackedRows& rows, DType dtype, int64_t size) {
  return dtype == DType::f64 ? with_all_rows<double>(rows, size) : with_all_rows<float>(rows, size);
}

Tensor with_all_rows(const Tensor& packed, DType dtype, int64_t size) {
  return with_all_rows(read_rows(packed), dtype, size);
}

Contribution mean_by_rows(std::span<const Contribution> gradients, DType dtype) {
  if (gradients.size() == 1) return gradients[0];
  Contribution mean;
  mean.gradient =
      dtype == DType::f64 ? mean_by_rows<double>(gradients) : mean_by_rows<float>(gradients);
  return mean;
}

std::string index_outside(std::span<const int64_t> indices, int64_t count, const std::string& of) {
  for (size_t i = 0; i < indices.size(); ++i)
    if (indices[i] < 0 || indices[i] >= count)
      return detail::concat(
          "index ", indices[i], " (number ", i, " of ", indices.size(), ") is not in [0, ", count,
          "), the rows of ", of,
          "; indices count from 0: give one of those, or the parameter more rows");
  return {};
}

std::string row_outside(const Tensor& packed, int64_t size, const std::string& of) {
  int64_t head[2];  // elements of a row, and rows
  if (!packed.defined() || !packed.on_host() || packed.dtype() != DType::u8 ||
      packed.size() < static_cast<int64_t>(sizeof head))
    return {};
  std::memcpy(head, packed.raw(), sizeof head);
  const auto [row_size, count] = head;
  const int64_t room =
      (packed.size() - static_cast<int64_t>(sizeof head)) / int64_t{sizeof(int64_t)};
  if (row_size < 1 || size % row_size != 0 || count < 0 || count > room) return {};
  return index_outside(read_rows(packed).indices, size / row_size, of);
}

Shape rows_shape(const Shape& indices, const Shape& whole) {
  std::vector<int64_t> sizes(indices.begin(), indices.end());
  sizes.insert(sizes.end(), whole.begin() + 1, whole.end());
  return Shape(sizes);
}

Tensor take_rows(const Tensor& whole, const Tensor& indices,
                 const std::function<Tensor(DType, const Shape&)>& make) {
  Tensor out = make(whole.dtype(), rows_shape(indices.shape(), whole.shape()));
  const int64_t count = whole.dim(0);
  const bool inside =
      copy_rows(whole, count, indices, count > 0 ? whole.byte_size() / count : 0, out);
  TROUPE_CHECK(inside, "indices that were looked at have changed since; they are not written to");
  return out;
}

Tensor take_rows(const Tensor& slice, const Tensor& indices, int64_t row_size) {
  Tensor out = Tensor::empty(slice.dtype(), Shape{indices.size(), row_size});
  const int64_t row_bytes = row_size * size_of(slice.dtype());
  return copy_rows(slice, slice.size() / row_size, indices, row_bytes, out) ? out : Tensor{};
}

}  // namespace troupe
