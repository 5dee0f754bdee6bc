// Concat: y = the parts joined one after the other along an axis.
//   parts: equal in every other dimension   y: the sum of their sizes along the axis.
#include "ops/gradients.hpp"
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

}  // namespace troupe
