// Gradients by rows between a parameter and its slices: a client cuts them, a shard merges them,
// and both gather the rows of a read. Owner: none, plain functions. Thread: any.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "training/rules/rule.hpp"

namespace troupe {

// True if all indices are in [0, count), the number of rows. Requires: count < 2^63.
bool are_rows(std::span<const int64_t> indices, int64_t count);
// True if the gradient, by rows, can be one of a tensor of `size` elements. Does not look at the
// contents of its indices.
bool are_like_rows(const Gradient& gradient, DType dtype, int64_t size);

// The rows of `gradient`, of any dtype, that lie in [begin, end), as rows of that part; as rows of
// one element where the ends are not between rows. Keeps the order of the rows. Requires: a row for
// each index.
Gradient rows_of_slice(const Gradient& gradient, int64_t begin, int64_t end);

// The rows of `gradient`, of any dtype, in the groups [begin, end) (training/rules/row_group.hpp),
// as they are. Requires: a row for each index.
Gradient rows_of_groups(const Gradient& gradient, int64_t begin, int64_t end);
// True if all indices are in [0, count), and in these groups.
bool are_rows_of_groups(std::span<const int64_t> indices, int64_t count, int64_t begin,
                        int64_t end);

// The same gradient with all its elements, [size].
Tensor with_all_rows(const Gradient& gradient, int64_t size);

// The mean of row gradients: a single one unchanged; of several the rows in ascending order, summed
// in the order of `gradients` and divided by their number. Requires: a row for each index, if there
// are several.
Gradient mean_by_rows(std::span<const Contribution> gradients);

// An error text, "index 9 (number 1 of 2) is not in [0, 4), the rows of table; ...", for the first
// such index; empty if all are in range.
std::string index_outside(std::span<const int64_t> indices, int64_t count, const std::string& of);

// The shape of a gather of such rows: [indices..., row...].
Shape rows_shape(const Shape& indices, const Shape& whole);
// Gathers those rows of `whole` into a tensor from `make`. Requires: indices, i64, in range.
Tensor take_rows(const Tensor& whole, const Tensor& indices,
                 const std::function<Tensor(DType, const Shape&)>& make);
// The same from a slice, [n, row_size]; undefined if an index is out of range.
Tensor take_rows(const Tensor& slice, const Tensor& indices, int64_t row_size);

}  // namespace troupe
