// Broadcasting as in NumPy: shapes are aligned at their last dimension, and a missing or size-one
// dimension is repeated.
#pragma once

#include <initializer_list>
#include <optional>

#include "graph/op.hpp"
#include "troupe/op.hpp"

namespace troupe {

// The shape that a and b broadcast to, with -1 for an unknown size. Returns nothing if they do not
// fit.
std::optional<Shape> broadcast(const Shape& a, const Shape& b);

// The error for an op that repeats x up to `shape` if x does not fit.
template <class Context>
Error not_repeatable(const Context& ctx, const Shape& x, const Shape& shape) {
  return ctx.error(x, " cannot be repeated up to ", shape,
                   "; from the last dimension on, its sizes must be those or 1");
}

// For infer_shapes: the shape that all inputs broadcast to. Throws: Error naming two shapes that do
// not fit.
Shape broadcast_inputs(const InferContext& ctx);

// Undoes a broadcast: from dL/d(the broadcast of `like`) computes dL/d(like). Adds no node if the
// shapes are equal.
Output undo_broadcast(Output gradient, Output like);

// A walk over up to three inputs along the elements of their dense, row-major broadcast. Dimensions
// with a common stride pattern are merged, so that most walks have one or two.
struct BroadcastWalk {
  static constexpr int kInputsMax = 3;
  Shape shape;   // of the result
  int ndim = 1;  // after merging; 1, of size 0, if the result has no elements
  int64_t sizes[Shape::kNdimMax] = {1};
  int64_t strides[kInputsMax][Shape::kNdimMax] = {};  // in elements; 0 where an input is repeated
};

// Throws: Error(invalid_argument) from ctx, with the two shapes that do not fit.
BroadcastWalk walk_inputs(const KernelContext& ctx);
// The walk of one tensor that is repeated up to `shape`. Requires: it fits.
BroadcastWalk walk_to(const Shape& x, const Shape& shape);

// The kernel of an op that repeats input 0 up to `shape`. Throws: Error(invalid_argument) if it
// does not fit.
void run_repeat(KernelContext& ctx, const Shape& shape);
// Kernel::elements of these ops.
void repeat_elements(const ElementRun& run);

// Calls row(first output element, first elements of the inputs, length) for every innermost row;
// along a row, input i advances by strides[i][ndim - 1], which is 0 or 1.
template <int kInputs, class Row>
void for_each_row(const BroadcastWalk& walk, Row row) {
  const int inner = walk.ndim - 1;
  const int64_t length = walk.sizes[inner];
  if (length == 0) return;
  int64_t rows = 1;
  for (int d = 0; d < inner; ++d) rows *= walk.sizes[d];
  int64_t index[Shape::kNdimMax] = {};
  int64_t at[kInputs] = {};
  for (int64_t r = 0; r < rows; ++r) {
    row(r * length, at, length);
    for (int d = inner - 1; d >= 0; --d) {
      for (int i = 0; i < kInputs; ++i) at[i] += walk.strides[i][d];
      if (++index[d] < walk.sizes[d]) break;
      for (int i = 0; i < kInputs; ++i) at[i] -= walk.strides[i][d] * walk.sizes[d];
      index[d] = 0;
    }
  }
}

}  // namespace troupe
