// Gradients by rows, between a parameter and its slices: cut up by a client, merged by a shard.
// troupe/ops/row_sparse.hpp says what they are.
#pragma once

#include <span>
#include <vector>

#include "training/rule.hpp"
#include "troupe/ops/row_sparse.hpp"

namespace troupe {

// What of `packed`, rows of a tensor of `size` elements, is in [begin, end), as rows of that part;
// as rows of one element where the ends are not between rows. The rows keep their order.
Tensor rows_of_slice(const Tensor& packed, DType dtype, int64_t size, int64_t begin, int64_t end);

// The same gradient with all its elements, [size].
Tensor with_all_rows(const Tensor& packed, DType dtype, int64_t size);

// The mean of gradients that are all by rows, by ascending rows if there are several: sums in the
// order of `gradients`, divided by their number.
Tensor mean_of_rows(std::span<const Contribution> gradients, DType dtype);

}  // namespace troupe
