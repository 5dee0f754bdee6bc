// ReduceAll: y = whether all of x are true, over axes (all of them when none is named); true where
// there is none.
//   x: bool, any shape   y: x without the axes, or with size 1 there if keep_dims.
#include "ops/reduce.hpp"

namespace troupe {
namespace {

void cpu(KernelContext& ctx) {
  const Tensor& x = ctx.input(0);
  const ReduceView view = reduce_view(ctx, x, reduced_axes(ctx, x.ndim()));
  reduce_or<LogicalAnd>(ctx, true, view, ctx.output().mutable_data<bool>());
}

}  // namespace

Op reduce_all_op() {
  return {.name = "ReduceAll",
          .inputs = {"x"},
          .outputs = {"y"},
          .attrs = reduce_attrs(),
          .infer_shapes = infer_reduced,
          .no_gradient = "its values are bool",
          .kernels = {reduce_kernel(DType::boolean, cpu)}};
}

Output reduce_all(Output x, ReduceOptions options, Origin at) {
  return add_node({.op = "ReduceAll", .inputs = {x}, .attrs = to_attrs(options)}, at);
}

}  // namespace troupe
