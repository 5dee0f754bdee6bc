// Shared by take_along and its gradient: lines of values and lines of indices along one axis.
#pragma once

#include "ops/support/indices.hpp"
#include "ops/support/order.hpp"

namespace troupe {

// Returns the axis. Throws: Error from ctx unless `x` and `indices` have the same sizes in all
// other dimensions. Context: InferContext or KernelContext.
template <class Context>
int checked_along(const Context& ctx, const Shape& x, const Shape& indices) {
  const int axis = checked_axis(ctx, ctx.template attr<int64_t>("axis"), x.ndim());
  bool fits = x.ndim() == indices.ndim();
  for (int d = 0; fits && d < x.ndim(); ++d) fits = d == axis || may_equal(x[d], indices[d]);
  if (!fits)
    throw ctx.error("wants indices with the sizes of ", x, " but along axis ", axis, ", got ",
                    indices);
  return axis;
}

// Calls f(number of an element of `indices`, number of the element of x at that index). Requires:
// the indices are checked and not empty.
template <class I, class F>
void for_each_along(const Shape& x, const Shape& indices, int axis, const I* index, F f) {
  const Lines lines(indices, axis);
  const int64_t n = x[axis];
  int64_t to = 0;
  for (int64_t o = 0; o < lines.outer; ++o)
    for (int64_t j = 0; j < lines.n; ++j)
      for (int64_t i = 0; i < lines.inner; ++i, ++to)
        f(to, (o * n + static_cast<int64_t>(index[to])) * lines.inner + i);
}

}  // namespace troupe
