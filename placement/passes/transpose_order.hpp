// The permutation of a Transpose node.
#pragma once

#include <numeric>
#include <vector>

#include "troupe/graph.hpp"

namespace troupe {

// Dimension i of the node's output is dimension [i] of its input. Negative numbers count from the
// end, and an empty permutation reverses all dimensions (ops/arrays/transpose.cpp).
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
