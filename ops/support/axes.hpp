// Checks axes given as attributes: negative axes count from the end, and each must exist.
#pragma once

#include <vector>

#include "graph/op_properties.hpp"

namespace troupe {

// Context: InferContext or KernelContext. Throws: Error(invalid_argument).
template <class Context>
int checked_axis(const Context& ctx, int64_t axis, int ndim) {
  if (axis < -ndim || axis >= ndim)
    throw ctx.error("axis ", axis, " is not there: with ", ndim, " dimensions, axes go from ",
                    -ndim, " to ", ndim - 1);
  return static_cast<int>(axis < 0 ? axis + ndim : axis);
}

// A set of axes as bits; an empty list means all axes.
template <class Context>
uint32_t checked_axes(const Context& ctx, const std::vector<int64_t>& axes, int ndim) {
  if (axes.empty()) return (1u << ndim) - 1;
  uint32_t set = 0;
  for (int64_t axis : axes) {
    const uint32_t bit = 1u << checked_axis(ctx, axis, ndim);
    if (set & bit) throw ctx.error("names axis ", axis, " twice; name each once");
    set |= bit;
  }
  return set;
}

// Arrangement::reordered, if the attributes `names` have a number for each dimension.
inline Attrs reordered(const Node& node, const DimensionOrder& order,
                       std::initializer_list<const char*> names) {
  Attrs attrs = node.attrs;
  for (const char* name : names)
    attrs[name] = in_order_before(order, node.attr<std::vector<int64_t>>(name));
  return attrs;
}

// The number of elements in dimensions [begin, end). For an empty tensor with other large sizes it
// may wrap around; for other tensors it is at most size().
inline int64_t size_between(const Shape& shape, int begin, int end) {
  uint64_t n = 1;
  for (int d = begin; d < end; ++d) n *= static_cast<uint64_t>(shape[d]);
  return static_cast<int64_t>(n);
}

}  // namespace troupe
