// What diag_part and its gradient share: where the diagonals of matrices [..., m, n] are.
#pragma once

#include <algorithm>

#include "ops/axes.hpp"
#include "troupe/op.hpp"

namespace troupe {

// [..., min(m, n)]; -1 where it is not known.
template <class Context>
Shape diagonals_of(const Context& ctx, const Shape& x) {
  if (x.ndim() < 2) throw ctx.error("wants matrices [..., m, n], got ", x);
  Shape y(x.dims().first(static_cast<size_t>(x.ndim() - 1)));
  const int64_t m = x[x.ndim() - 2], n = x[x.ndim() - 1];
  // Of two sizes of which one is not known, 0 is the least.
  y.set(y.ndim() - 1, m < 0 || n < 0 ? (m == 0 || n == 0 ? 0 : -1) : std::min(m, n));
  return y;
}

}  // namespace troupe
