// Diagonal: y[..., i] = x[i, i + offset] along two axes of x, as numpy.diagonal.
//   x: [..., m, ..., n, ...] of any dtype   y: the other dimensions of x, then the diagonal's.
#include "ops/linear_algebra/diagonal.hpp"

#include "ops/gradients.hpp"
#include "ops/support/node.hpp"

namespace troupe {
namespace {

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  return {diagonal_walk(ctx, ctx.input(0)).shape};
}

// Writing dy for dL/dy:  dx = dy in its place, zeros around.
std::vector<Output> gradient(const GradientContext& ctx) {
  return {diagonal_gradient(ctx.output_gradient(0), ctx.input(0), diagonal_options(ctx.node()))};
}

void cpu(KernelContext& ctx) {
  const Tensor& x = ctx.input(0);
  const DiagonalWalk walk = diagonal_walk(ctx, x.shape());
  const int64_t element = size_of(x.dtype());
  Tensor& y = ctx.output(0, walk.shape);
  if (y.size() == 0) return;
  copy_strided(ctx, element, walk.shape, static_cast<const char*>(x.raw()) + walk.first * element,
               walk.strides, y.mutable_raw(), dense_strides(walk.shape));
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

}  // namespace troupe
