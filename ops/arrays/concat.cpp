// Concat: y = the parts joined one after the other along an axis.
//   parts: equal in every other dimension   y: the sum of their sizes along the axis.
//
// ConcatGradient: dy cut into the pieces that the parts of a concat filled.
//   dy: the parts' shapes joined along the axis   outputs: the parts; only their shapes are
//   read.
#include "ops/gradients.hpp"
#include "ops/support/elementwise.hpp"
#include "ops/support/join.hpp"
#include "ops/support/node.hpp"
#include "troupe/ops.hpp"

namespace troupe {
namespace {

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  const int axis = checked_axis(ctx, ctx.attr<int64_t>("axis"), ctx.input(0).ndim());
  return {joined_shape(ctx, input_shapes(ctx, 0), axis)};
}

// Writing dy for dL/dy:  each part gets its piece of dy.
std::vector<Output> gradient(const GradientContext& ctx) {
  return concat_gradient(ctx.output_gradient(0), ctx.node().inputs, ctx.attr<int64_t>("axis"));
}

void cpu(KernelContext& ctx) {
  const int axis = checked_axis(ctx, ctx.attr<int64_t>("axis"), ctx.input(0).ndim());
  const std::vector<Shape> parts = input_shapes(ctx, 0);
  const Shape whole = joined_shape(ctx, parts, axis);
  Tensor& y = ctx.output(0, whole);
  char* const to = static_cast<char*>(y.mutable_raw());
  JoinedRuns(whole, parts, axis, y.dtype())
      .run(ctx, [&](size_t part, int64_t from, int64_t at, size_t bytes) {
        std::memcpy(to + at,
                    static_cast<const char*>(ctx.input(static_cast<int>(part)).raw()) + from,
                    bytes);
      });
}

constexpr OpProperties kProperties = {
    .identities = {.passes_on = [](const Node& node) { return node.inputs.size() == 1; }},
    .arrangement = {.reordered = [](const Node& node, const DimensionOrder& order) {
      const auto axis = node.attr<int64_t>("axis"), ndim = static_cast<int64_t>(order.size());
      return Attrs{{"axis", order[static_cast<size_t>(axis < 0 ? axis + ndim : axis)]}};
    }}};

// Returns the axis. Throws: Error if dy does not have the shape of the joined parts.
template <class Context>
int checked_parts(const Context& ctx, const Shape& dy, const std::vector<Shape>& parts) {
  const int axis = checked_axis(ctx, ctx.template attr<int64_t>("axis"), parts[0].ndim());
  const Shape whole = joined_shape(ctx, parts, axis);
  if (!may_equal(dy, whole))
    throw ctx.error("wants ", whole, ", the parts joined along axis ", axis, ", got ", dy);
  return axis;
}

std::vector<Shape> infer_gradient_shapes(const InferContext& ctx) {
  std::vector<Shape> parts = input_shapes(ctx, 1);
  checked_parts(ctx, ctx.input(0), parts);
  return parts;
}

// Writing g for the gradients of the pieces, the gradient of dy is their concat; a piece without a
// gradient counts as zeros.
std::vector<Output> gradient_of_gradient(const GradientContext& ctx) {
  std::vector<Output> parts, gradients(static_cast<size_t>(ctx.input_count()));
  for (int i = 0; i + 1 < ctx.input_count(); ++i) {
    parts.push_back(output_gradient_or_zeros(ctx, i, ctx.input(i + 1)));
  }
  gradients[0] = concat(parts, ctx.attr<int64_t>("axis"));
  return gradients;
}

void cpu_gradient(KernelContext& ctx) {
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

constexpr OpProperties kGradientProperties = {
    .arrangement = {.cut_axis = [](const Node& node) {
      const auto axis = static_cast<int>(node.attr<int64_t>("axis"));
      return axis < 0 ? axis + node.outputs[0].shape.ndim() : axis;
    }}};

}  // namespace

Op concat_op() {
  return {.name = "Concat",
          .inputs = {"parts..."},
          .outputs = {"y"},
          .attrs = {{"axis", AttrKind::integer}},
          .infer_shapes = infer_shapes,
          .gradient = gradient,
          .kernels = {{DeviceKind::cpu, DType::none, cpu}},
          .properties = &kProperties};
}

Output concat(const std::vector<Output>& parts, int64_t axis, Origin at) {
  if (parts.empty())
    throw Error(Errc::invalid_argument, "Concat made at ", at.file, ":", at.line,
                ": there are no parts; pass at least one");
  return add_node({.op = "Concat", .inputs = parts, .attrs = {{"axis", axis}}}, at);
}

Op concat_gradient_op() {
  return {.name = "ConcatGradient",
          .inputs = {"dy", "parts..."},
          .outputs = {"pieces..."},
          .attrs = {{"axis", AttrKind::integer}},
          .infer_shapes = infer_gradient_shapes,
          .gradient = gradient_of_gradient,
          .kernels = {{DeviceKind::cpu, DType::none, cpu_gradient}},
          .properties = &kGradientProperties};
}

std::vector<Output> concat_gradient(Output dy, const std::vector<Output>& parts, int64_t axis,
                                    Origin at) {
  std::vector<Output> inputs = {dy};
  inputs.insert(inputs.end(), parts.begin(), parts.end());
  return all_outputs(
      add_node({.op = "ConcatGradient", .inputs = inputs, .attrs = {{"axis", axis}}}, at));
}

}  // namespace troupe
