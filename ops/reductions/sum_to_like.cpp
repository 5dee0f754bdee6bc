// SumToLike: undoes a broadcast: x summed down to the shape of another value.
//   x: a shape to which the shape of `like` broadcasts   like: only its shape is read   y: the
//   shape of `like`.
#include "ops/support/narrow.hpp"
#include "ops/reductions/reduce.hpp"

namespace troupe {
namespace {

template <class Context>
Error mismatch(const Context& ctx, const Shape& x, const Shape& like) {
  return ctx.error(x, " is not what ", like, " broadcasts to, so it cannot be summed down to it; ",
                   "from the last dimension on, sizes of `like` must be those of x or 1");
}

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  require_kernel(ctx, ctx.dtype(0));
  const Shape &x = ctx.input(0), &like = ctx.input(1);
  const auto both = broadcast(x, like);
  if (!both || !may_equal(*both, x)) throw mismatch(ctx, x, like);
  return {like};
}

// Writing dy for dL/dy:  dx = dy broadcast again.
std::vector<Output> gradient(const GradientContext& ctx) {
  return {broadcast_like(ctx.output_gradient(0), ctx.input(0)), Output{}};
}

void cpu(KernelContext& ctx) {
  const Tensor& x = ctx.input(0);
  const Shape shape = x.shape(), like = ctx.input(1).shape();
  if (shape == like) return ctx.set_output(0, x);
  if (broadcast(shape, like) != shape) throw mismatch(ctx, shape, like);
  uint32_t axes = 0;
  const int missing = shape.ndim() - like.ndim();
  for (int d = 0; d < shape.ndim(); ++d)
    if (d < missing || like[d - missing] != shape[d]) axes |= 1u << d;
  const ReduceView view = reduce_view(ctx, x, axes);
  reduce_elements(ctx, sum_reduction(x.dtype()), view, ctx.output(0, like).mutable_raw());
}

}  // namespace

Op sum_to_like_op() {
  return {.name = "SumToLike",
          .inputs = {"x", "like"},
          .outputs = {"y"},
          .infer_shapes = infer_shapes,
          .gradient = gradient,
          .kernels = with_i8(number_kernels(cpu, cpu, cpu, cpu)),
          .precision = Precision::wide};
}

Output sum_to_like(Output x, Output like, Origin at) {
  return add_node({.op = "SumToLike", .inputs = {x, like}}, at);
}

}  // namespace troupe
