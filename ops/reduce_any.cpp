// ReduceAny: y = whether any of x is true, over axes (all of them when none is named); false where
// there is none.
//   x: bool, any shape   y: x without the axes, or with size 1 there if keep_dims.
#include "ops/reduce.hpp"

namespace troupe {
namespace {

void cpu(KernelContext& ctx) {
  const Tensor& x = ctx.input(0);
  const ReduceView view = reduce_view(ctx, x, reduced_axes(ctx, x.ndim()));
  reduce_or<LogicalOr>(ctx, false, view, ctx.output().mutable_data<bool>());
}

}  // namespace

Op reduce_any_op() {
  return {.name = "ReduceAny",
          .inputs = {"x"},
          .outputs = {"y"},
          .attrs = reduce_attrs(),
          .infer_shapes = infer_reduced,
          .no_gradient = "its values are bool",
          .kernels = {reduce_kernel(DType::boolean, cpu)}};
}

Output reduce_any(Output x, ReduceOptions options, Origin at) {
  return add_node({.op = "ReduceAny", .inputs = {x}, .attrs = to_attrs(options)}, at);
}

}  // namespace troupe
