// Gradients by rows. A gather leaves most rows of its gradient 0, so a gradient that comes from
// gathers alone is pushed to shards as (indices, values), and those touch no other row.
//
// In a graph such a gradient is the output of gather_gradient(), or a sum of several for the same
// parameter: rows_of() finds it, apply_gradients(), clip_by_norm(), clip_by_global_norm() and
// add_weight_decay() look, and the node that would fill the other rows with zeros is left out. It
// runs, and the gradient is as large as its parameter, only where another op reads it.
//
// Shards update the rows that were pushed and leave all others as they are, their replicas, too:
// for momentum, Adam and the others that is what TensorFlow calls a lazy or sparse update. t still
// counts all updates of a slice. Rows that several replicas push are summed in replica order, a
// replica without a row counting as 0, and divided by the number of replicas. sgd, adagrad and ftrl
// (with weights of 0 at first) do what they would do with the zeros. LAMB, whose norms are of all
// rows, gets the zeros. For sgd the rows are pushed as they were gathered, and one that was
// gathered twice is updated twice, in their order; for all others rows that are equal are summed
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

// The different indices of [0, rows), i32 or i64, in the order of their first appearance, and for
// each of them the sum of its values, floats, in their order: indices [i...], values [i...,
// row...]. How many there are only the step knows.
RowSparse sum_rows(Output indices, Output values, int64_t rows, Origin at = Origin::here());

// What `gradient`, for `like`, is made of, each row once; nothing if it is not one of gathers
// alone.
std::optional<RowSparse> rows_of(Output gradient, Output like, Origin at = Origin::here());

// The same as they were gathered, one row as often as that.
std::optional<RowSparse> gathered_rows_of(Output gradient, Output like, Origin at = Origin::here());

// push_gradient() of rows that are there once each, or with sgd any number of times; the others
// have no gradient.
Output push_row_gradient(Output parameter, RowSparse gradient, const Optimizer& optimizer,
                         const std::vector<int32_t>& control_inputs = {},
                         Origin at = Origin::here());

// How they travel: as one tensor, u8, which no trained parameter is: the size of a row and the
// number of rows, the indices, all i64, and the values.
Tensor pack_rows(int64_t row_size, std::span<const int64_t> indices, const void* values,
                 DType dtype);
struct PackedRows {
  int64_t row_size = 0;  // elements
  std::span<const int64_t> indices;
  const void* values = nullptr;  // [indices, row_size]
};
// Nothing if that is not what pack_rows() makes for rows of a tensor of `size` elements: indices
// out of range, or lengths that do not agree. The result lives as long as `packed`.
std::optional<PackedRows> unpack_rows(const Tensor& packed, DType dtype, int64_t size);
// The same of what unpack_rows() took, or pack_rows() made, without a look at it.
PackedRows read_rows(const Tensor& packed);

}  // namespace troupe
