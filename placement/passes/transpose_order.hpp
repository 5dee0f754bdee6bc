// What a Transpose node says.
#pragma once

#include <numeric>
#include <vector>

#include "troupe/graph.hpp"

namespace troupe {

// Dimension i of what the node makes is dimension [i] of what it reads. Negative numbers count from
// the end, and an empty permutation turns all dimensions round (ops/arrays/transpose.cpp).
inline std::vector<int64_t> order_of(const Node& transpose) {
  const auto ndim = static_cast<int64_t>(transpose.outputs[0].shape.ndim());
  std::vector<int64_t> order = transpose.attr<std::vector<int64_t>>("permutation");
  for (int64_t& axis : order) axis = axis < 0 ? axis + ndim : axis;
  if (!order.empty()) return order;
  order.resize(static_cast<size_t>(ndim));
  std::iota(order.rbegin(), order.rend(), 0);
  return order;
}

}  // namespace troupe
