// ConcatGradient: dy cut into pieces that lie as the parts lay in a concat.
//   dy: the parts' shapes joined along the axis   outputs: the shape of each part, of which nothing
//   else is used.
#include "ops/elementwise.hpp"
#include "ops/join.hpp"

namespace troupe {
namespace {

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  const Shape& dy = ctx.input(0);
  const int axis = checked_axis(ctx, ctx.attr<int64_t>("axis"), ctx.input(1).ndim());
  const Shape whole = joined_shape(ctx, 1, axis);
  if (!may_equal(dy, whole))
    throw ctx.error("wants ", whole, ", the parts joined along axis ", axis, ", got ", dy);
  std::vector<Shape> parts;
  for (int i = 1; i < ctx.input_count(); ++i) parts.push_back(ctx.input(i));
  return parts;
}

// Writing g for the gradients of the pieces:  that of dy is their concat; a piece that nobody reads
// counts as zeros.
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
  const int axis = checked_axis(ctx, ctx.attr<int64_t>("axis"), whole.ndim());
  int64_t length = 0;
  for (int i = 1; i < ctx.input_count(); ++i) {
    Shape part = ctx.input(i).shape();
    length += part[axis];
    part.set(axis, whole[axis]);
    if (part != whole)
      throw ctx.error("a part of shape ", ctx.input(i).shape(), " is not in ", whole);
  }
  if (length != whole[axis])
    throw ctx.error("the parts have ", length, " rows along axis ", axis, ", dy ", whole[axis]);
  const char* from = static_cast<const char*>(dy.raw());
  for (int i = 1; i < ctx.input_count(); ++i) {
    const Shape part = ctx.input(i).shape();
    const Runs runs(whole, part, axis, dy.dtype());
    runs.copy_out(from, static_cast<char*>(ctx.output(i - 1, part).mutable_raw()));
    from += runs.part_bytes;
  }
}

}  // namespace

Op concat_gradient_op() {
  return {.name = "ConcatGradient",
          .inputs = {"dy", "parts..."},
          .outputs = {"pieces..."},
          .attrs = {{"axis", AttrKind::integer}},
          .infer_shapes = infer_shapes,
          .gradient = gradient,
          .kernels = {{DeviceKind::cpu, DType::none, cpu}}};
}

std::vector<Output> concat_gradient(Output dy, const std::vector<Output>& parts, int64_t axis,
                                    Origin at) {
  std::vector<Output> inputs = {dy};
  inputs.insert(inputs.end(), parts.begin(), parts.end());
  return all_outputs(
      add_node({.op = "ConcatGradient", .inputs = inputs, .attrs = {{"axis", axis}}}, at));
}

}  // namespace troupe
