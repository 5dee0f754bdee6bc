// Copies between tensors with arbitrary strides: transposes, slices.
#pragma once

#include <array>

#include "troupe/op.hpp"

namespace troupe {

using Strides = std::array<int64_t, Shape::kNdimMax>;  // in elements, for each dimension

Strides dense_strides(const Shape& shape);  // zeros for an empty tensor, which is not walked

// y[i . y_strides] = x[i . x_strides] for every index i within `shape`; large copies run in jobs. x
// and y do not overlap.
void copy_strided(const KernelContext& ctx, int64_t element_size, const Shape& shape, const void* x,
                  const Strides& x_strides, void* y, const Strides& y_strides);

// Some elements of a tensor: their shape, and how to walk them in it.
struct StridedWalk {
  Shape shape;
  Strides strides = {};
  int64_t first = 0;  // the offset of the first one, in elements
};

// y = the elements of x that the walk names.
void take_walked(const KernelContext& ctx, const Tensor& x, const StridedWalk& walk, Tensor& y);
// y = zeros, with the elements of x at the places that the walk names.
void place_walked(const KernelContext& ctx, const Tensor& x, const StridedWalk& walk, Tensor& y);

}  // namespace troupe
