// DiagonalGradient: dx = zeros, with dy on the diagonal that the same options name.
//   dy: a diagonal of x_like   x_like: only its shape is used   dx: the shape of x_like.
#include <cstring>

#include "ops/gradients.hpp"
#include "ops/linear_algebra/diagonal.hpp"
#include "ops/support/node.hpp"

namespace troupe {
namespace {

template <class Context>
DiagonalWalk checked_walk(const Context& ctx, const Shape& dy, const Shape& x) {
  DiagonalWalk walk = diagonal_walk(ctx, x);
  if (!may_equal(dy, walk.shape))
    throw ctx.error("dy ", dy, " is no diagonal of ", x, "; that has the shape ", walk.shape);
  return walk;
}

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  checked_walk(ctx, ctx.input(0), ctx.input(1));
  return {ctx.input(1)};
}

// Linear in dy. Writing g for the gradient of dx:  that of dy is the same diagonal of g.
std::vector<Output> gradient(const GradientContext& ctx) {
  return {diagonal(ctx.output_gradient(0), diagonal_options(ctx.node())), Output{}};
}

void cpu(KernelContext& ctx) {
  const Tensor& dy = ctx.input(0);
  const Shape x = ctx.input(1).shape();
  const DiagonalWalk walk = checked_walk(ctx, dy.shape(), x);
  const int64_t element = size_of(dy.dtype());
  Tensor& dx = ctx.output(0, x);
  if (dx.size() == 0) return;
  std::memset(dx.mutable_raw(), 0, static_cast<size_t>(dx.byte_size()));
  if (dy.size() == 0) return;
  copy_strided(ctx, element, walk.shape, dy.raw(), dense_strides(walk.shape),
               static_cast<char*>(dx.mutable_raw()) + walk.first * element, walk.strides);
}

}  // namespace

Op diagonal_gradient_op() {
  return {.name = "DiagonalGradient",
          .inputs = {"dy", "x_like"},
          .outputs = {"dx"},
          .attrs = diagonal_attrs(),
          .infer_shapes = infer_shapes,
          .gradient = gradient,
          .kernels = {{DeviceKind::cpu, DType::none, cpu}}};
}

Output diagonal_gradient(Output dy, Output x_like, DiagonalOptions options, Origin at) {
  return add_node({.op = "DiagonalGradient", .inputs = {dy, x_like}, .attrs = to_attrs(options)},
                  at);
}

Output diag_part_gradient(Output dy, Output x_like, Origin at) {
  return diagonal_gradient(dy, x_like, {}, at);
}

}  // namespace troupe
