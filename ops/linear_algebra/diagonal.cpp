// Diagonal: y[..., i] = x[i, i + offset] along two axes of x, as numpy.diagonal.
//   x: [..., m, ..., n, ...] of any dtype   y: the other dimensions of x, then the diagonal's.
//
// DiagonalGradient: dx = zeros, with dy on the diagonal that the same options name.
//   dy: a diagonal of x_like   x_like: only its shape is used   dx: the shape of x_like.
#include "ops/gradients.hpp"
#include "ops/support/axes.hpp"
#include "ops/support/node.hpp"
#include "ops/support/strided.hpp"
#include "troupe/ops.hpp"

namespace troupe {
namespace {

std::vector<AttrSpec> diagonal_attrs() {
  return {{"offset", AttrKind::integer, int64_t{0}},
          {"axis1", AttrKind::integer, int64_t{-2}},
          {"axis2", AttrKind::integer, int64_t{-1}}};
}

Attrs to_attrs(const DiagonalOptions& options) {
  return {{"offset", options.offset}, {"axis1", options.axis1}, {"axis2", options.axis2}};
}

DiagonalOptions diagonal_options(const Node& node) {
  return {node.attr<int64_t>("offset"), node.attr<int64_t>("axis1"), node.attr<int64_t>("axis2")};
}

// The diagonals of a tensor. Sizes that are not known are -1; strides are those of a tensor of
// known shape that is not empty. Context: InferContext or KernelContext. Throws:
// Error(invalid_argument) for bad axes.
template <class Context>
StridedWalk diagonal_walk(const Context& ctx, const Shape& x) {
  const int64_t offset = ctx.template attr<int64_t>("offset");
  if (x.ndim() < 2) throw ctx.error("wants at least two dimensions to walk along, got ", x);
  const int axis1 = checked_axis(ctx, ctx.template attr<int64_t>("axis1"), x.ndim());
  const int axis2 = checked_axis(ctx, ctx.template attr<int64_t>("axis2"), x.ndim());
  if (axis1 == axis2) throw ctx.error("walks along two axes, got ", axis1, " twice");
  const int64_t m = x[axis1], n = x[axis2];
  const int64_t down = offset < 0 ? std::min(m, -std::max(offset, -m)) : 0;
  const int64_t across = offset > 0 ? std::min(n, offset) : 0;
  std::vector<int64_t> sizes;
  StridedWalk walk;
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

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  return {diagonal_walk(ctx, ctx.input(0)).shape};
}

// Writing dy for dL/dy:  dx = dy in its place, zeros around.
std::vector<Output> gradient(const GradientContext& ctx) {
  return {diagonal_gradient(ctx.output_gradient(0), ctx.input(0), diagonal_options(ctx.node()))};
}

void cpu(KernelContext& ctx) {
  const Tensor& x = ctx.input(0);
  const StridedWalk walk = diagonal_walk(ctx, x.shape());
  take_walked(ctx, x, walk, ctx.output(0, walk.shape));
}

template <class Context>
StridedWalk checked_walk(const Context& ctx, const Shape& dy, const Shape& x) {
  StridedWalk walk = diagonal_walk(ctx, x);
  if (!may_equal(dy, walk.shape))
    throw ctx.error("dy ", dy, " is no diagonal of ", x, "; that has the shape ", walk.shape);
  return walk;
}

std::vector<Shape> infer_gradient_shapes(const InferContext& ctx) {
  checked_walk(ctx, ctx.input(0), ctx.input(1));
  return {ctx.input(1)};
}

// Linear in dy. Writing g for the gradient of dx:  that of dy is the same diagonal of g.
std::vector<Output> gradient_of_gradient(const GradientContext& ctx) {
  return {diagonal(ctx.output_gradient(0), diagonal_options(ctx.node())), Output{}};
}

void cpu_gradient(KernelContext& ctx) {
  const Tensor& dy = ctx.input(0);
  const Shape x = ctx.input(1).shape();
  const StridedWalk walk = checked_walk(ctx, dy.shape(), x);
  place_walked(ctx, dy, walk, ctx.output(0, x));
}

}  // namespace

Op diagonal_op() {
  return {.name = "Diagonal",
          .inputs = {"x"},
          .outputs = {"y"},
          .attrs = diagonal_attrs(),
          .infer_shapes = infer_shapes,
          .gradient = gradient,
          .kernels = {{DeviceKind::cpu, DType::none, cpu}}};
}

Output diagonal(Output x, DiagonalOptions options, Origin at) {
  return add_node({.op = "Diagonal", .inputs = {x}, .attrs = to_attrs(options)}, at);
}

Output diag_part(Output x, Origin at) { return diagonal(x, {}, at); }

Op diagonal_gradient_op() {
  return {.name = "DiagonalGradient",
          .inputs = {"dy", "x_like"},
          .outputs = {"dx"},
          .attrs = diagonal_attrs(),
          .infer_shapes = infer_gradient_shapes,
          .gradient = gradient_of_gradient,
          .kernels = {{DeviceKind::cpu, DType::none, cpu_gradient}}};
}

Output diagonal_gradient(Output dy, Output x_like, DiagonalOptions options, Origin at) {
  return add_node({.op = "DiagonalGradient", .inputs = {dy, x_like}, .attrs = to_attrs(options)},
                  at);
}

Output diag_part_gradient(Output dy, Output x_like, Origin at) {
  return diagonal_gradient(dy, x_like, {}, at);
}

}  // namespace troupe
