// BroadcastLike: y = x repeated up to the shape of another value.
//   x: a shape that broadcasts to the shape of `like`; only the shape of `like` is read.
#include "ops/support/broadcast.hpp"
#include "ops/support/node.hpp"
#include "troupe/ops.hpp"

namespace troupe {
namespace {

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  const Shape &x = ctx.input(0), &like = ctx.input(1);
  const auto both = broadcast(x, like);
  if (!both || !may_equal(*both, like)) throw not_repeatable(ctx, x, like);
  return {like};
}

// dx: dy summed over the repetitions.
std::vector<Output> gradient(const GradientContext& ctx) {
  return {undo_broadcast(ctx.output_gradient(0), ctx.input(0)), Output{}};
}

void cpu(KernelContext& ctx) { run_repeat(ctx, ctx.input(1).shape()); }

constexpr OpProperties kProperties = {.arrangement = {.by_dimension = true}};

}  // namespace

Op broadcast_like_op() {
  return {.name = "BroadcastLike",
          .inputs = {"x", "like"},
          .outputs = {"y"},
          .infer_shapes = infer_shapes,
          .gradient = gradient,
          .kernels = {{.run = cpu, .elements = repeat_elements}},
          .properties = &kProperties};
}

Output broadcast_like(Output x, Output like, Origin at) {
  return add_node({.op = "BroadcastLike", .inputs = {x, like}}, at);
}

}  // namespace troupe
