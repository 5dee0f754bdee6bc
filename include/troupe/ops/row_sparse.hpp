// Gradients by rows. A gather leaves most rows of its gradient 0, so a gradient that comes only
// from gathers is pushed to shards as (indices, values), and the shards touch no other row.
//
// In a graph such a gradient is the output of gather_gradient(), or a sum of several for the same
// parameter. rows_of() finds it; apply_gradients(), clip_by_norm(), clip_by_global_norm() and
// add_weight_decay() use it, and the node that would fill the other rows with zeros is left out.
// That node runs, and the gradient is as large as its parameter, only if another op reads it.
//
// Shards update the rows that were pushed and leave all others as they are, with their
// accumulators: for momentum, Adam and the others that is what TensorFlow calls a lazy or sparse
// update. t still counts all updates of a slice. Rows that several replicas push are summed in
// replica order, a replica without a row counting as 0, and divided by the number of replicas. sgd,
// adagrad and ftrl (with initial weights of 0) give the same result as with the zeros. LAMB, whose
// norms are over all rows, gets the zeros. For sgd the rows are pushed as they were gathered, and a
// row that was gathered twice is updated twice, in that order; for all others equal rows are summed
// first.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "troupe/graph.hpp"
#include "troupe/train.hpp"

namespace troupe {

struct RowSparse {
  Output indices;  // [n], i64
  Output values;   // [n, sizes of a row...]
};

// The distinct indices of [0, rows), i32 or i64, in the order of their first appearance, and for
// each of them the sum of its values, floats, in their order: indices [i...], values [i...,
// row...]. Only the step knows how many there are.
RowSparse sum_rows(Output indices, Output values, int64_t rows, Origin at = Origin::here());

// The rows that `gradient`, for `like`, consists of, each once; nothing if it does not come only
// from gathers.
std::optional<RowSparse> rows_of(Output gradient, Output like, Origin at = Origin::here());

// The same rows as they were gathered, with repetitions.
std::optional<RowSparse> gathered_rows_of(Output gradient, Output like, Origin at = Origin::here());

// push_gradient() of rows that are distinct, or with sgd may repeat; the other rows have no
// gradient.
Output push_row_gradient(Output parameter, RowSparse gradient, const Optimizer& optimizer,
                         const std::vector<int32_t>& control_inputs = {},
                         Origin at = Origin::here());

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

}  // namespace troupe
