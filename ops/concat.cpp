// Concat: y = the parts one behind the other along an axis.
//   parts: equal in every other dimension   y: the sum of their sizes along the axis.
#include "ops/join.hpp"
#include "ops/node.hpp"
#include "troupe/ops.hpp"

namespace troupe {
namespace {

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  return {joined_shape(ctx, 0, checked_axis(ctx, ctx.attr<int64_t>("axis"), ctx.input(0).ndim()))};
}

// Writing dy for dL/dy:  each part gets its piece of dy.
std::vector<Output> gradient(const GradientContext& ctx) {
  return concat_gradient(ctx.output_gradient(0), ctx.node().inputs, ctx.attr<int64_t>("axis"));
}

void cpu(KernelContext& ctx) {
  const int axis = checked_axis(ctx, ctx.attr<int64_t>("axis"), ctx.input(0).ndim());
  // The output's shape may have been known before the parts were: they are checked against it.
  Shape whole = ctx.input(0).shape();
  for (int i = 1; i < ctx.input_count(); ++i) {
    const Shape part = ctx.input(i).shape();
    for (int d = 0; d < whole.ndim(); ++d)
      if (d != axis && part[d] != whole[d])
        throw ctx.error("parts may differ along axis ", axis, " alone, got ", ctx.input(0).shape(),
                        " and ", part);
    whole.set(axis, whole[axis] + part[axis]);
  }
  Tensor& y = ctx.output(0, whole);
  char* to = static_cast<char*>(y.mutable_raw());
  for (int i = 0; i < ctx.input_count(); ++i) {
    const Runs runs(whole, ctx.input(i).shape(), axis, y.dtype());
    runs.copy_in(static_cast<const char*>(ctx.input(i).raw()), to);
    to += runs.part_bytes;
  }
}

}  // namespace

Op concat_op() {
  return {.name = "Concat",
          .inputs = {"parts..."},
          .outputs = {"y"},
          .attrs = {{"axis", AttrKind::integer}},
          .infer_shapes = infer_shapes,
          .gradient = gradient,
          .kernels = {{DeviceKind::cpu, DType::none, cpu}}};
}

Output concat(const std::vector<Output>& parts, int64_t axis, Origin at) {
  return add_node({.op = "Concat", .inputs = parts, .attrs = {{"axis", axis}}}, at);
}

}  // namespace troupe
