// Which dimensions a reduction takes together; of its gradient, those that it broadcasts over.
#pragma once

#include <algorithm>
#include <vector>

#include "troupe/graph.hpp"

namespace troupe {

// Whether the node's `axes` name dimension d of `ndim`, those of what is reduced. Negative ones
// count from the end, and an empty list names all, as it does to the ops (ops/support/axes.hpp).
inline bool names_axis(const Node& reduction, int ndim, int d) {
  const auto& axes = reduction.attr<std::vector<int64_t>>("axes");
  return axes.empty() || std::any_of(axes.begin(), axes.end(), [&](int64_t axis) {
           return (axis < 0 ? axis + ndim : axis) == d;
         });
}

}  // namespace troupe
