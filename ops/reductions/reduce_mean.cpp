// ReduceMean: y = the mean of x over axes (all of them if none is named); NaN for no elements.
//   x: any shape   y: x without the axes, or with size 1 there if keep_dims.
#include "ops/gradients.hpp"
#include "ops/reductions/reduce.hpp"

namespace troupe {
namespace {

// Writing dy for dL/dy:  dx = dy / n, broadcast over the n elements that were added.
std::vector<Output> gradient(const GradientContext& ctx) {
  return {reduce_gradient(ctx.output_gradient(0), ctx.input(0), reduce_options(ctx.node()),
                          /*mean=*/true)};
}

template <class T>
void cpu(KernelContext& ctx) {
  const Tensor& x = ctx.input(0);
  const ReduceView view = reduce_view(ctx, x, reduced_axes(ctx, x.ndim()));
  Tensor& output = ctx.output();
  T* y = output.mutable_data<T>();
  reduce_elements(ctx, sum_reduction(dtype_of<T>), view, y);
  const T count = static_cast<T>(view.reduced);
  const int64_t n = output.size();
  for (int64_t i = 0; i < n; ++i) y[i] /= count;
}

}  // namespace

Op reduce_mean_op() {
  return reduce_op("ReduceMean", infer_reduced, gradient,
                   {{.dtype = DType::f32, .run = cpu<float>, .takes = true},
                    {.dtype = DType::f64, .run = cpu<double>, .takes = true}},
                   Precision::wide);
}

Output reduce_mean(Output x, ReduceOptions options, Origin at) {
  return add_node({.op = "ReduceMean", .inputs = {x}, .attrs = to_attrs(options)}, at);
}

}  // namespace troupe
