// Copies between tensors whose dimensions are walked in any order: transposes, slices.
#pragma once

#include <array>

#include "troupe/op.hpp"

namespace troupe {

using Strides = std::array<int64_t, Shape::kNdimMax>;  // in elements, for each dimension

Strides dense_strides(const Shape& shape);  // zeros for an empty tensor, where nobody walks

// y[i . y_strides] = x[i . x_strides] for every index i within `shape`, in jobs if they are many. x
// and y do not overlap.
void copy_strided(const KernelContext& ctx, int64_t element_size, const Shape& shape, const void* x,
                  const Strides& x_strides, void* y, const Strides& y_strides);

}  // namespace troupe
