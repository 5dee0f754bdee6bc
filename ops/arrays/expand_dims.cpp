// ExpandDims: x with one more dimension, of size 1. No copy.
//   axis: the position of that dimension in y; a negative axis counts from y's end.
#include "ops/support/axes.hpp"
#include "ops/support/node.hpp"
#include "troupe/ops.hpp"

namespace troupe {
namespace {

template <class Context>
Shape expanded(const Context& ctx, const Shape& x) {
  if (x.ndim() >= Shape::kNdimMax)
    throw ctx.error("would have more than ", int{Shape::kNdimMax}, " dimensions: ", x,
                    " has that many; reshape it first");
  const int axis = checked_axis(ctx, ctx.template attr<int64_t>("axis"), x.ndim() + 1);
  std::vector<int64_t> sizes(x.begin(), x.end());
  sizes.insert(sizes.begin() + axis, 1);
  return Shape(sizes);
}

std::vector<Shape> infer_shapes(const InferContext& ctx) { return {expanded(ctx, ctx.input(0))}; }

// Writing dy for dL/dy:  dx = dy in x's shape.
std::vector<Output> gradient(const GradientContext& ctx) {
  const Output x = ctx.input(0), dy = ctx.output_gradient(0);
  return {x.shape().is_known() ? reshape(dy, x.shape()) : reshape_like(dy, x)};
}

void cpu(KernelContext& ctx) {
  const Tensor& x = ctx.input(0);
  ctx.set_output(0, x.reshaped(expanded(ctx, x.shape())));
}

}  // namespace

Op expand_dims_op() {
  return {.name = "ExpandDims",
          .inputs = {"x"},
          .outputs = {"y"},
          .attrs = {{"axis", AttrKind::integer}},
          .infer_shapes = infer_shapes,
          .gradient = gradient,
          .kernels = {{DeviceKind::cpu, DType::none, cpu}},
          .aliases = true};
}

Output expand_dims(Output x, int64_t axis, Origin at) {
  return add_node({.op = "ExpandDims", .inputs = {x}, .attrs = {{"axis", axis}}}, at);
}

}  // namespace troupe
