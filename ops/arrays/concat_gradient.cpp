// ConcatGradient: dy cut into the pieces that the parts of a concat filled.
//   dy: the parts' shapes joined along the axis   outputs: the parts; only their shapes are
//   read.
#include "ops/gradients.hpp"
#include "ops/support/elementwise.hpp"
#include "ops/support/join.hpp"

namespace troupe {
namespace {

// Returns the axis. Throws: Error if dy does not have the shape of the joined parts.
template <class Context>
int checked_parts(const Context& ctx, const Shape& dy, const std::vector<Shape>& parts) {
  const int axis = checked_axis(ctx, ctx.template attr<int64_t>("axis"), parts[0].ndim());
  const Shape whole = joined_shape(ctx, parts, axis);
  if (!may_equal(dy, whole))
    throw ctx.error("wants ", whole, ", the parts joined along axis ", axis, ", got ", dy);
  return axis;
}

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  std::vector<Shape> parts = input_shapes(ctx, 1);
  checked_parts(ctx, ctx.input(0), parts);
  return parts;
}

// Writing g for the gradients of the pieces, the gradient of dy is their concat; a piece without a
// gradient counts as zeros.
std::vector<Output> gradient(const GradientContext& ctx) {
  std::vector<Output> parts, gradients(static_cast<size_t>(ctx.input_count()));
  for (int i = 0; i + 1 < ctx.input_count(); ++i) {
    const Output g = ctx.output_gradient(i);
    parts.push_back(g.defined() ? g : zeros_like(ctx.input(i + 1)));
  }
  gradients[0] = concat(parts, ctx.attr<int64_t>("axis"));
  return gradients;
}

void cpu(KernelContext& ctx) {
  const Tensor& dy = ctx.input(0);
  const Shape whole = dy.shape();
  const std::vector<Shape> parts = input_shapes(ctx, 1);
  const int axis = checked_parts(ctx, whole, parts);
  const char* const from = static_cast<const char*>(dy.raw());
  std::vector<char*> pieces;
  for (const Shape& part : parts)
    pieces.push_back(
        static_cast<char*>(ctx.output(static_cast<int>(pieces.size()), part).mutable_raw()));
  JoinedRuns(whole, parts, axis, dy.dtype())
      .run(ctx, [&](size_t part, int64_t to, int64_t at, size_t bytes) {
        std::memcpy(pieces[part] + to, from + at, bytes);
      });
}

constexpr OpProperties kProperties = {
    .arrangement = {.cut_axis = [](const Node& node) {
      const auto axis = static_cast<int>(node.attr<int64_t>("axis"));
      return axis < 0 ? axis + node.outputs[0].shape.ndim() : axis;
    }}};

}  // namespace

Op concat_gradient_op() {
  return {.name = "ConcatGradient",
          .inputs = {"dy", "parts..."},
          .outputs = {"pieces..."},
          .attrs = {{"axis", AttrKind::integer}},
          .infer_shapes = infer_shapes,
          .gradient = gradient,
          .kernels = {{DeviceKind::cpu, DType::none, cpu}},
          .properties = &kProperties};
}

std::vector<Output> concat_gradient(Output dy, const std::vector<Output>& parts, int64_t axis,
                                    Origin at) {
  std::vector<Output> inputs = {dy};
  inputs.insert(inputs.end(), parts.begin(), parts.end());
  return all_outputs(
      add_node({.op = "ConcatGradient", .inputs = inputs, .attrs = {{"axis", axis}}}, at));
}

}  // namespace troupe
