// Rows, between a parameter and its slices: gradients by rows are cut up by a client and merged by
// a shard, rows that are read are taken by either. troupe/ops/row_sparse.hpp says what such
// gradients are.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "training/rules/rule.hpp"
#include "troupe/ops/row_sparse.hpp"

namespace troupe {

// Whether all of them are in [0, count), the rows that there are. Requires: count < 2^63.
bool are_rows(std::span<const int64_t> indices, int64_t count);
// Whether unpack_rows() takes it.
bool are_packed_rows(const Tensor& packed, DType dtype, int64_t size);
// Whether `values`, [n, elements of a row] or fewer that are each for several
// (graph/base/repeat_rows.hpp), can be rows of a tensor of `size` elements; what `indices` says is
// not looked at.
bool are_like_rows(const Tensor& indices, const Tensor& values, DType dtype, int64_t size);

// What a gradient holds that is by rows: packed, or with its indices, of which each has a row.
// Requires: it was looked at.
PackedRows rows_in(const Tensor& gradient, const Tensor& indices);

// What of `rows`, rows of a tensor of any dtype, is in [begin, end), packed, as rows of that part;
// as rows of one element where the ends are not between rows. The rows keep their order.
Tensor rows_of_slice(const PackedRows& rows, DType dtype, int64_t begin, int64_t end);
// The same of packed rows of a tensor of `size` elements.
Tensor rows_of_slice(const Tensor& packed, DType dtype, int64_t size, int64_t begin, int64_t end);

// The same gradient with all its elements, [size].
Tensor with_all_rows(const PackedRows& rows, DType dtype, int64_t size);
Tensor with_all_rows(const Tensor& packed, DType dtype, int64_t size);

// The mean of gradients that are all by rows: the only one as it is; several by ascending rows,
// packed, summed in the order of `gradients` and divided by their number.
Contribution mean_by_rows(std::span<const Contribution> gradients, DType dtype);

// For messages: "index 9 (number 1 of 2) is not in [0, 4), the rows of table; ...", of the first
// such index; empty if all are.
std::string index_outside(std::span<const int64_t> indices, int64_t count, const std::string& of);
// The same of packed rows of a tensor of `size` elements, whoever sent them; empty, too, if
// something else is wrong with them.
std::string row_outside(const Tensor& packed, int64_t size, const std::string& of);

// What a gather of such rows has: [indices..., row...].
Shape rows_shape(const Shape& indices, const Shape& whole);
// Those rows of `whole`, in memory of `make`. Requires: indices, i64, in range.
Tensor take_rows(const Tensor& whole, const Tensor& indices,
                 const std::function<Tensor(DType, const Shape&)>& make);
// The same of a slice, [n, row_size], for rows that are `row_size` elements each; undefined if an
// index is out of range.
Tensor take_rows(const Tensor& slice, const Tensor& indices, int64_t row_size);

}  // namespace troupe
