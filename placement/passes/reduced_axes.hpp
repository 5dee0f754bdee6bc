// The axes of a reduction: the dimensions it reduces, and its gradient broadcasts over.
#pragma once

#include <algorithm>
#include <vector>

#include "troupe/graph.hpp"

namespace troupe {

// True if the node's `axes` name dimension d of the `ndim` dimensions of the reduced value.
// Negative axes count from the end, and an empty list names all, as in the ops
// (ops/support/axes.hpp).
inline bool names_axis(const Node& reduction, int ndim, int d) {
  const auto& axes = reduction.attr<std::vector<int64_t>>("axes");
  return axes.empty() || std::any_of(axes.begin(), axes.end(), [&](int64_t axis) {
           return (axis < 0 ? axis + ndim : axis) == d;
         });
}

}  // namespace troupe
