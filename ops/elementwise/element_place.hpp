// Which element an error of a step is about. For Check and CheckFinite.
#pragma once

#include <string>

#include "ops/support/node.hpp"

namespace troupe {

// The indices of element i, in row-major order.
inline Shape place_of_element(const Shape& shape, int64_t i) {
  Shape at = shape;
  for (int d = shape.ndim() - 1; d >= 0; --d) {
    at.set(d, i % shape[d]);
    i /= shape[d];
  }
  return at;
}

// " in step 7"; nothing outside of training steps.
inline std::string in_step(const KernelContext& ctx) {
  const int64_t step = ctx.step();
  return step < 0 ? std::string() : detail::concat(" in step ", step);
}

}  // namespace troupe
