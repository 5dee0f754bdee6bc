// Places of the elements of a diagonal, for diagonal and its gradient.
#pragma once

#include "ops/support/axes.hpp"
#include "ops/support/strided.hpp"
#include "troupe/ops.hpp"

namespace troupe {

inline std::vector<AttrSpec> diagonal_attrs() {
  return {{"offset", AttrKind::integer, int64_t{0}},
          {"axis1", AttrKind::integer, int64_t{-2}},
          {"axis2", AttrKind::integer, int64_t{-1}}};
}

inline Attrs to_attrs(const DiagonalOptions& options) {
  return {{"offset", options.offset}, {"axis1", options.axis1}, {"axis2", options.axis2}};
}

inline DiagonalOptions diagonal_options(const Node& node) {
  return {node.attr<int64_t>("offset"), node.attr<int64_t>("axis1"), node.attr<int64_t>("axis2")};
}

// The diagonals of a tensor: their shape, and how to walk them in it.
struct DiagonalWalk {
  Shape shape;        // -1 where it is not known
  Strides strides{};  // in elements; only of a tensor of known shape that is not empty
  int64_t first = 0;
};

// Context: InferContext or KernelContext. Throws: Error(invalid_argument) for bad axes.
template <class Context>
DiagonalWalk diagonal_walk(const Context& ctx, const Shape& x) {
  const int64_t offset = ctx.template attr<int64_t>("offset");
  if (x.ndim() < 2) throw ctx.error("wants at least two dimensions to walk along, got ", x);
  const int axis1 = checked_axis(ctx, ctx.template attr<int64_t>("axis1"), x.ndim());
  const int axis2 = checked_axis(ctx, ctx.template attr<int64_t>("axis2"), x.ndim());
  if (axis1 == axis2) throw ctx.error("walks along two axes, got ", axis1, " twice");
  const int64_t m = x[axis1], n = x[axis2];
  const int64_t down = offset < 0 ? std::min(m, -std::max(offset, -m)) : 0;
  const int64_t across = offset > 0 ? std::min(n, offset) : 0;
  std::vector<int64_t> sizes;
  DiagonalWalk walk;
  const Strides dense = x.is_known() ? dense_strides(x) : Strides{};
  const auto stride = [&](int d) { return dense[static_cast<size_t>(d)]; };
  for (int d = 0; d < x.ndim(); ++d) {
    if (d == axis1 || d == axis2) continue;
    walk.strides[sizes.size()] = stride(d);
    sizes.push_back(x[d]);
  }
  walk.strides[sizes.size()] = stride(axis1) + stride(axis2);
  sizes.push_back(m < 0 || n < 0 ? -1 : std::min(m - down, n - across));
  walk.shape = Shape(sizes);
  walk.first = down * stride(axis1) + across * stride(axis2);
  return walk;
}

}  // namespace troupe
