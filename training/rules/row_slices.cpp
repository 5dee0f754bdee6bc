// Cuts gradients by rows into slices, merges them, and gathers the rows of a read.
#include "training/rules/row_slices.hpp"

#include <algorithm>
#include <cstring>

#include "devices/threads/isa.hpp"
#include "graph/base/row_indices.hpp"
#include "graph/base/repeat_rows.hpp"
#include "training/rules/row_group.hpp"
#include "training/rules/row_prefetch.hpp"

namespace troupe {
namespace {

// [n] and [n, row size].
template <class T>
Gradient gradient_of(const std::vector<int64_t>& indices, const std::vector<T>& values, DType dtype,
                     int64_t row_size) {
  const auto n = static_cast<int64_t>(indices.size());
  Gradient out{Tensor::empty(dtype, Shape{n, row_size}), Tensor::of<int64_t>(indices, Shape{n})};
  if (!values.empty())
    std::memcpy(out.values.mutable_raw(), values.data(), values.size() * sizeof(T));
  return out;
}

// T: any type of the elements' size.
template <class T>
Gradient rows_of_slice(const Gradient& gradient, int64_t begin, int64_t end) {
  const T* values = static_cast<const T*>(gradient.values.raw());
  const int64_t row = gradient.row_size();
  const bool whole = begin % row == 0 && end % row == 0;
  std::vector<int64_t> indices;
  std::vector<T> found;
  for (const int64_t index : gradient.rows()) {
    const int64_t at = index * row;
    const int64_t first = std::max(at, begin), last = std::min(at + row, end);
    if (first < last) {
      found.insert(found.end(), values + (first - at), values + (last - at));
      if (whole) indices.push_back((at - begin) / row);
      for (int64_t e = first; !whole && e < last; ++e) indices.push_back(e - begin);
    }
    values += row;
  }
  return gradient_of(indices, found, gradient.values.dtype(), whole ? row : 1);
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
  const RowPrefetch<char> ahead(from, row_bytes, list);
  for (size_t i = 0; i < list.size(); ++i) {
    ahead.reached(i);
    std::memcpy(to, from + list[i] * row_bytes, static_cast<size_t>(row_bytes));
    to += row_bytes;
  }
  return true;
}

template <class T>
Tensor with_all_rows(const Gradient& gradient, int64_t size) {
  Tensor all = Tensor::zeros(dtype_of<T>, Shape{size});
  const int64_t row = gradient.row_size();
  const T* values = gradient.values.data<T>();
  T* to = all.mutable_data<T>();
  for (const int64_t index : gradient.rows()) {
    for (int64_t j = 0; j < row; ++j) to[index * row + j] += values[j];
    values += row;
  }
  return all;
}

// The same elements as rows of one element each.
Gradient as_elements(const Gradient& gradient) {
  const int64_t row = gradient.row_size();
  std::vector<int64_t> indices;
  for (const int64_t index : gradient.rows())
    for (int64_t j = 0; j < row; ++j) indices.push_back(index * row + j);
  const auto n = static_cast<int64_t>(indices.size());
  return {gradient.values.reshaped(Shape{n, 1}), Tensor::of<int64_t>(indices, Shape{n})};
}

template <class T>
Gradient mean_by_rows(std::span<const Contribution> gradients) {
  std::vector<Gradient> all;
  for (const Contribution& c : gradients) all.push_back(c.gradient);
  // Programs may be cut differently; then only single elements are common to all.
  const auto other = [&](const Gradient& g) { return g.row_size() != all[0].row_size(); };
  if (std::any_of(all.begin(), all.end(), other))
    for (Gradient& gradient : all) gradient = as_elements(gradient);
  struct Row {
    int64_t index;
    const T* values;
  };
  const int64_t width = all[0].row_size();
  std::vector<Row> rows;
  for (const Gradient& one : all) {
    const T* values = one.values.data<T>();
    for (const int64_t index : one.rows()) {
      rows.push_back({index, values});
      values += width;
    }
  }
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
  return gradient_of(indices, sums, dtype_of<T>, width);
}

}  // namespace

bool are_rows(std::span<const int64_t> indices, int64_t count) {
  if (count == 0) return indices.empty();
  return in_isa<RowRangeLoop>(indices.data(), static_cast<int64_t>(indices.size()),
                              static_cast<uint64_t>(count) - 1);
}

bool are_like_rows(const Gradient& gradient, DType dtype, int64_t size) {
  const Tensor &indices = gradient.indices, &values = gradient.values;
  if (indices.dtype() != DType::i64 || indices.ndim() != 1 || !indices.on_host()) return false;
  if (values.dtype() != dtype || values.ndim() != 2 || !values.on_host()) return false;
  return may_repeat(values.dim(0), indices.size()) && values.dim(1) > 0 &&
         size % values.dim(1) == 0;
}

Gradient rows_of_slice(const Gradient& gradient, int64_t begin, int64_t end) {
  switch (size_of(gradient.values.dtype())) {
    case 1:
      return rows_of_slice<uint8_t>(gradient, begin, end);
    case 2:
      return rows_of_slice<uint16_t>(gradient, begin, end);
    case 4:
      return rows_of_slice<uint32_t>(gradient, begin, end);
    case 8:
      return rows_of_slice<uint64_t>(gradient, begin, end);
  }
  throw InternalError("no elements of ", gradient.values.dtype(), " are cut");
}

Gradient rows_of_groups(const Gradient& gradient, int64_t begin, int64_t end) {
  const std::span<const int64_t> rows = gradient.rows();
  std::vector<size_t> here;
  for (size_t i = 0; i < rows.size(); ++i)
    if (const int64_t group = row_group(rows[i]); group >= begin && group < end) here.push_back(i);
  const auto n = static_cast<int64_t>(here.size());
  const DType dtype = gradient.values.dtype();
  Gradient out{Tensor::empty(dtype, Shape{n, gradient.row_size()}), Tensor::empty(DType::i64, {n})};
  if (n == 0) return out;
  const auto bytes = static_cast<size_t>(gradient.row_size() * size_of(dtype));
  const char* const from = static_cast<const char*>(gradient.values.raw());
  char* to = static_cast<char*>(out.values.mutable_raw());
  int64_t* index = out.indices.mutable_data<int64_t>();
  for (const size_t i : here) {
    std::memcpy(to, from + i * bytes, bytes);
    to += bytes;
    *index++ = rows[i];
  }
  return out;
}

bool are_rows_of_groups(std::span<const int64_t> indices, int64_t count, int64_t begin,
                        int64_t end) {
  if (!are_rows(indices, count)) return false;
  return (begin == 0 && end == kRowGroups) ||
         std::all_of(indices.begin(), indices.end(), [&](int64_t row) {
           const int64_t group = row_group(row);
           return group >= begin && group < end;
         });
}

Tensor with_all_rows(const Gradient& gradient, int64_t size) {
  return gradient.values.dtype() == DType::f64 ? with_all_rows<double>(gradient, size)
                                               : with_all_rows<float>(gradient, size);
}

Gradient mean_by_rows(std::span<const Contribution> gradients) {
  const Gradient& first = gradients[0].gradient;
  if (gradients.size() == 1) return first;
  return first.values.dtype() == DType::f64 ? mean_by_rows<double>(gradients)
                                            : mean_by_rows<float>(gradients);
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
