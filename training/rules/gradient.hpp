// Gradient: a gradient from the op that made it to the optimizer: all elements, or some rows. Also
// the values of a write.
// Owner: a value; its tensors are frozen. Thread: any.
#pragma once

#include <cstdint>
#include <span>
#include <utility>

#include "troupe/tensor.hpp"

namespace troupe {

struct Gradient {
  // All elements, in any shape. By rows: [n, elements of a row], or [k, elements of a row] where
  // each row is for n / k consecutive indices (graph/base/repeat_rows.hpp).
  Tensor values;
  Tensor indices;  // i64 [n]: the rows; undefined: all elements

  Gradient() = default;
  Gradient(Tensor all) : values(std::move(all)) {}  // NOLINT: a tensor is a gradient
  Gradient(Tensor rows, Tensor of) : values(std::move(rows)), indices(std::move(of)) {}

  bool defined() const { return values.defined(); }
  bool by_rows() const { return indices.defined(); }
  int64_t byte_size() const {
    return (defined() ? values.byte_size() : 0) + (by_rows() ? indices.byte_size() : 0);
  }
  // Requires of all below: by_rows(), and the gradient was checked (training/rules/row_slices.hpp).
  int64_t row_size() const { return values.dim(1); }  // elements
  std::span<const int64_t> rows() const { return indices.values<int64_t>(); }
  int64_t indices_per_row() const {
    return indices.size() == 0 ? 1 : indices.size() / values.dim(0);
  }
};

}  // namespace troupe
