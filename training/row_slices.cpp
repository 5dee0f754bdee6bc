// Implements training/row_slices.hpp.
#include "training/row_slices.hpp"

#include <algorithm>
#include <cstring>

namespace troupe {
namespace {

template <class T>
Tensor rows_of_slice(const PackedRows& rows, int64_t begin, int64_t end) {
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
  return pack_rows(whole ? row : 1, indices, found.data(), dtype_of<T>);
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

// The same rows as rows of one element.
template <class T>
Tensor as_elements(const PackedRows& rows) {
  std::vector<int64_t> indices;
  for (const int64_t index : rows.indices)
    for (int64_t j = 0; j < rows.row_size; ++j) indices.push_back(index * rows.row_size + j);
  return pack_rows(1, indices, rows.values, dtype_of<T>);
}

template <class T>
Tensor mean_of_rows(std::span<const Contribution> gradients) {
  std::vector<Tensor> kept;
  std::vector<PackedRows> all;
  for (const Contribution& c : gradients) all.push_back(read_rows(c.gradient));
  // Programs may be cut differently; then elements are what they have in common.
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
  // Of one row, the slots stay in their order.
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

Tensor rows_of_slice(const Tensor& packed, DType dtype, int64_t size, int64_t begin, int64_t end) {
  if (begin == 0 && end == size) return packed;
  const PackedRows rows = read_rows(packed);
  return dtype == DType::f64 ? rows_of_slice<double>(rows, begin, end)
                             : rows_of_slice<float>(rows, begin, end);
}

Tensor with_all_rows(const Tensor& packed, DType dtype, int64_t size) {
  const PackedRows rows = read_rows(packed);
  return dtype == DType::f64 ? with_all_rows<double>(rows, size) : with_all_rows<float>(rows, size);
}

Tensor mean_of_rows(std::span<const Contribution> gradients, DType dtype) {
  if (gradients.size() == 1) return gradients[0].gradient;
  return dtype == DType::f64 ? mean_of_rows<double>(gradients) : mean_of_rows<float>(gradients);
}

}  // namespace troupe
