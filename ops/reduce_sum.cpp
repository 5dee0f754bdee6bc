// ReduceSum: y = the sum of x over axes (all of them when none is named); 0 where there is nothing
// to add.
//   x: any shape   y: x without the axes, or with size 1 there if keep_dims. Integers wrap around.
#include "ops/narrow.hpp"
#include "ops/reduce.hpp"

namespace troupe {
namespace {

// Writing dy for dL/dy:  dx = dy, broadcast over what was added.
std::vector<Output> gradient(const GradientContext& ctx) {
  return {reduce_gradient(ctx.output_gradient(0), ctx.input(0), reduce_options(ctx.node()))};
}

template <class T>
void cpu(KernelContext& ctx) {
  const Tensor& x = ctx.input(0);
  const ReduceView view = reduce_view(ctx, x, reduced_axes(ctx, x.ndim()));
  sum_all(ctx, view, ctx.output().mutable_data<T>());
}

}  // namespace

Op reduce_sum_op() {
  return {.name = "ReduceSum",
          .inputs = {"x"},
          .outputs = {"y"},
          .attrs = reduce_attrs(),
          .infer_shapes = infer_reduced,
          .gradient = gradient,
          .kernels = with_i8(
              {reduce_kernel(DType::f32, cpu<float>), reduce_kernel(DType::f64, cpu<double>),
               reduce_kernel(DType::i32, cpu<int32_t>), reduce_kernel(DType::i64, cpu<int64_t>)}),
          .precision = Precision::wide};
}

Output reduce_sum(Output x, ReduceOptions options, Origin at) {
  return add_node({.op = "ReduceSum", .inputs = {x}, .attrs = to_attrs(options)}, at);
}

}  // namespace troupe
