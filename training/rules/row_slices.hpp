// Row gradients between a parameter and its slices: a client cuts them up, a shard merges them, and
// both gather the rows of a read. troupe/ops/parameters.hpp defines row gradients.
// Owner: none, plain functions. Thread: any.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "graph/base/packed_rows.hpp"
#include "training/rules/rule.hpp"
#include "troupe/ops/parameters.hpp"

namespace troupe {

// True if all indices are in [0, count), the number of rows. Requires: count < 2^63.
bool are_rows(std::span<const int64_t> indices, int64_t count);
// True if unpack_rows() accepts it.
bool are_packed_rows(const Tensor& packed, DType dtype, int64_t size);
// True if `values`, [n, elements of a row] or fewer rows that are each for several indices
// (graph/base/repeat_rows.hpp), can be rows of a tensor of `size` elements. Does not look at the
// contents of `indices`.
bool are_like_rows(const Tensor& indices, const Tensor& values, DType dtype, int64_t size);

// The rows of a row gradient: packed, or with `indices`. Requires: it was checked.
PackedRows rows_in(const Tensor& gradient, const Tensor& indices);

// The rows of `rows`, of any dtype, that lie in [begin, end), packed, as rows of that part; as rows
// of one element where the ends are not between rows. Keeps the order of the rows.
Tensor rows_of_slice(const PackedRows& rows, DType dtype, int64_t begin, int64_t end);
// The same for packed rows of a tensor of `size` elements.
Tensor rows_of_slice(const Tensor& packed, DType dtype, int64_t size, int64_t begin, int64_t end);

// The same gradient with all its elements, [size].
Tensor with_all_rows(const PackedRows& rows, DType dtype, int64_t size);
Tensor with_all_rows(const Tensor& packed, DType dtype, int64_t size);

// The mean of row gradients: a single one unchanged; several packed, by ascending row, summed in
// the order of `gradients` and divided by their number.
Contribution mean_by_rows(std::span<const Contribution> gradients, DType dtype);

// An error text, "index 9 (number 1 of 2) is not in [0, 4), the rows of table; ...", for the first
// such index; empty if all are in range.
std::string index_outside(std::span<const int64_t> indices, int64_t count, const std::string& of);
// The same for packed rows of a tensor of `size` elements, from any sender; empty, too, if they are
// invalid in another way.
std::string row_outside(const Tensor& packed, int64_t size, const std::string& of);

// The shape of a gather of such rows: [indices..., row...].
Shape rows_shape(const Shape& indices, const Shape& whole);
// Gathers those rows of `whole` into a tensor from `make`. Requires: indices, i64, in range.
Tensor take_rows(const Tensor& whole, const Tensor& indices,
                 const std::function<Tensor(DType, const Shape&)>& make);
// The same from a slice, [n, row_size]; undefined if an index is out of range.
Tensor take_rows(const Tensor& slice, const Tensor& indices, int64_t row_size);

}  // namespace troupe
