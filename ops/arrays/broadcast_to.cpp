// BroadcastTo: y = x repeated up to `shape`.
//   x: a shape that broadcasts to `shape`, which has no -1.
//
// BroadcastLike: y = x repeated up to the shape of another value.
//   x: a shape that broadcasts to the shape of `like`; only the shape of `like` is read.
#include "ops/support/broadcast.hpp"
#include "ops/support/node.hpp"
#include "troupe/ops.hpp"

namespace troupe {
namespace {

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  const Shape& shape = ctx.attr<Shape>("shape");
  if (!shape.is_known())
    throw ctx.error("wants a shape without -1, got ", shape,
                    "; for the shape of another value use broadcast_like");
  const auto both = broadcast(ctx.input(0), shape);
  if (!both || !may_equal(*both, shape)) throw not_repeatable(ctx, ctx.input(0), shape);
  return {shape};
}

// dx: dy summed over the repetitions.
std::vector<Output> gradient(const GradientContext& ctx) {
  std::vector<Output> gradients(static_cast<size_t>(ctx.input_count()));
  gradients[0] = undo_broadcast(ctx.output_gradient(0), ctx.input(0));
  return gradients;
}

void cpu(KernelContext& ctx) { run_repeat(ctx, ctx.attr<Shape>("shape")); }

// To the shape that x has. A shape that is not known is checked when the step runs.
constexpr OpProperties kProperties = {
    .identities = {.passes_on = [](const Node& node) { return node.inputs[0].shape().is_known(); }},
    .arrangement = {.by_dimension = true}};

std::vector<Shape> infer_like(const InferContext& ctx) {
  const Shape &x = ctx.input(0), &like = ctx.input(1);
  const auto both = broadcast(x, like);
  if (!both || !may_equal(*both, like)) throw not_repeatable(ctx, x, like);
  return {like};
}

void cpu_like(KernelContext& ctx) { run_repeat(ctx, ctx.input(1).shape()); }

constexpr OpProperties kLikeProperties = {.arrangement = {.by_dimension = true}};

}  // namespace

Op broadcast_to_op() {
  return {.name = "BroadcastTo",
          .inputs = {"x"},
          .outputs = {"y"},
          .attrs = {{"shape", AttrKind::shape}},
          .infer_shapes = infer_shapes,
          .gradient = gradient,
          .kernels = {{.run = cpu, .elements = repeat_elements}},
          .properties = &kProperties};
}

Output broadcast_to(Output x, Shape shape, Origin at) {
  return add_node({.op = "BroadcastTo", .inputs = {x}, .attrs = {{"shape", shape}}}, at);
}

Op broadcast_like_op() {
  return {.name = "BroadcastLike",
          .inputs = {"x", "like"},
          .outputs = {"y"},
          .infer_shapes = infer_like,
          .gradient = gradient,
          .kernels = {{.run = cpu_like, .elements = repeat_elements}},
          .properties = &kLikeProperties};
}

Output broadcast_like(Output x, Output like, Origin at) {
  return add_node({.op = "BroadcastLike", .inputs = {x, like}}, at);
}

}  // namespace troupe
