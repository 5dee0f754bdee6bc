// ReshapeLike: the elements of x, in row-major order, under the shape of another value. No copy.
//   x, like: the same number of elements   y: the shape of `like`, of which nothing else is read.
#include "ops/support/node.hpp"
#include "troupe/ops.hpp"

namespace troupe {
namespace {

template <class Context>
void check_sizes(const Context& ctx, const Shape& x, const Shape& like) {
  if (x.size() != like.size())
    throw ctx.error("the ", x.size(), " elements of ", x, " do not fit into ", like);
}

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  const Shape &x = ctx.input(0), &like = ctx.input(1);
  if (x.is_known() && like.is_known()) check_sizes(ctx, x, like);
  return {like};
}

// Writing dy for dL/dy:  dx = dy in x's shape.
std::vector<Output> gradient(const GradientContext& ctx) {
  return {reshape_like(ctx.output_gradient(0), ctx.input(0)), Output{}};
}

void cpu(KernelContext& ctx) {
  const Tensor& x = ctx.input(0);
  const Shape like = ctx.input(1).shape();
  check_sizes(ctx, x.shape(), like);
  ctx.set_output(0, x.reshaped(like));
}

}  // namespace

Op reshape_like_op() {
  return {.name = "ReshapeLike",
          .inputs = {"x", "like"},
          .outputs = {"y"},
          .infer_shapes = infer_shapes,
          .gradient = gradient,
          .kernels = {{DeviceKind::cpu, DType::none, cpu}},
          .aliases = true};
}

Output reshape_like(Output x, Output like, Origin at) {
  return add_node({.op = "ReshapeLike", .inputs = {x, like}}, at);
}

}  // namespace troupe
