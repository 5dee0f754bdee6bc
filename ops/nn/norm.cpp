// norm: the length of x over axes, composed of other ops.
//   order 1: the sum of |x|;  2: sqrt(the sum of x^2);  infinity: the greatest |x|.
// At a kink, x = 0, the gradient is 0. With order 2, squares must be within the dtype's range.
#include <cmath>

#include "ops/support/elementwise.hpp"

namespace troupe {
namespace {

// The square root, with slope 0 at 0 instead of infinity.
Output flat_sqrt(Output x, Origin at) {
  const Output zero = constant_like(0, x, at), is_zero = equal(x, zero, at);
  return where(is_zero, zero, sqrt(where(is_zero, constant_like(1, x, at), x, at), at), at);
}

}  // namespace

Output norm(Output x, double order, ReduceOptions options, Origin at) {
  if (order == 1) return reduce_sum(abs(x, at), std::move(options), at);
  if (order == 2) return flat_sqrt(reduce_sum(square(x, at), std::move(options), at), at);
  if (order == INFINITY) return reduce_max(abs(x, at), std::move(options), at);
  throw Error(Errc::invalid_argument, "norm() at ", at.file, ":", at.line, " has no order ", order,
              "; the orders are 1, 2 and infinity");
}

}  // namespace troupe
