// ReduceSum: y = the sum of x over axes (all of them if none is named); 0 for no elements.
//   x: any shape   y: x without the axes, or with size 1 there if keep_dims. Integers wrap around.
//
// ReduceMean: y = the mean of x over axes (all of them if none is named); NaN for no elements.
//   x: any shape   y: x without the axes, or with size 1 there if keep_dims.
//
// ReduceProd: y = the product of x over axes (all of them if none is named); 1 for no elements.
//   x: any shape   y: x without the axes, or with size 1 there if keep_dims. Integers wrap around.
#include "ops/gradients.hpp"
#include "ops/reductions/reduce.hpp"
#include "ops/reductions/reduction.hpp"
#include "ops/support/narrow.hpp"

namespace troupe {
namespace {

// Writing dy for dL/dy:  dx = dy, broadcast over the summed elements.
std::vector<Output> gradient_of_sum(const GradientContext& ctx) {
  return {reduce_gradient(ctx.output_gradient(0), ctx.input(0), reduce_options(ctx.node()))};
}

struct Sum : Add {
  template <class T>
  static constexpr T nothing = 0;
};

// Writing dy for dL/dy:  dx = dy / n, broadcast over the n elements that were added.
std::vector<Output> gradient_of_mean(const GradientContext& ctx) {
  return {reduce_gradient(ctx.output_gradient(0), ctx.input(0), reduce_options(ctx.node()),
                          /*mean=*/true)};
}

template <class T>
void mean(KernelContext& ctx) {
  const Tensor& x = ctx.input(0);
  const ReduceView view = reduce_view(ctx, x, reduced_axes(ctx, x.ndim()));
  Tensor& output = ctx.output();
  T* y = output.mutable_data<T>();
  reduce_elements(ctx, sum_reduction(dtype_of<T>), view, y);
  const T count = static_cast<T>(view.reduced);
  const int64_t n = output.size();
  for (int64_t i = 0; i < n; ++i) y[i] /= count;
}

// The product of all other elements along an axis, without a division, so that zeros are handled.
Output product_of_others(Output x, int64_t axis) {
  return multiply(cumprod(x, {.axis = axis, .exclusive = true}),
                  cumprod(x, {.axis = axis, .exclusive = true, .reverse = true}));
}

// Writing dy for dL/dy:  dx = dy * the product of all other elements. That is: of the other
// elements along the first axis, times, of the products along that axis, the others along the
// second, and so on.
std::vector<Output> gradient_of_product(const GradientContext& ctx) {
  const Output x = ctx.input(0);
  const ReduceOptions options = reduce_options(ctx.node());
  std::vector<int64_t> axes = options.axes;
  for (int64_t d = 0; options.axes.empty() && d < x.shape().ndim(); ++d) axes.push_back(d);
  std::vector<Output> factors;
  Output products = x;
  for (size_t i = 0; i < axes.size(); ++i) {
    if (i > 0) products = reduce_prod(products, {.axes = {axes[i - 1]}, .keep_dims = true});
    factors.push_back(product_of_others(products, axes[i]));
  }
  Output dx = reduce_gradient(ctx.output_gradient(0), x, options);
  if (factors.empty()) return {dx};
  Output others = factors.back();  // the smallest one
  for (size_t i = factors.size() - 1; i > 0; --i) others = multiply(factors[i - 1], others);
  return {multiply(dx, others)};
}

struct Product : Multiply {
  template <class T>
  static constexpr T nothing = 1;
};

}  // namespace

const Reduction& sum_reduction(DType dtype) {
  return find_reduction<Sum, float, double, int32_t, int64_t>(dtype);
}

Op reduce_sum_op() {
  return reduce_op(
      "ReduceSum", infer_reduced, gradient_of_sum,
      with_i8(reduce_kernels<run_reduction<sum_reduction>, float, double, int32_t, int64_t>()),
      Precision::wide);
}

Output reduce_sum(Output x, ReduceOptions options, Origin at) {
  return add_node({.op = "ReduceSum", .inputs = {x}, .attrs = to_attrs(options)}, at);
}

Op reduce_mean_op() {
  return reduce_op("ReduceMean", infer_reduced, gradient_of_mean,
                   {{.dtype = DType::f32, .run = mean<float>, .takes = true},
                    {.dtype = DType::f64, .run = mean<double>, .takes = true}},
                   Precision::wide);
}

Output reduce_mean(Output x, ReduceOptions options, Origin at) {
  return add_node({.op = "ReduceMean", .inputs = {x}, .attrs = to_attrs(options)}, at);
}

const Reduction& product_reduction(DType dtype) {
  return find_reduction<Product, float, double, int32_t, int64_t>(dtype);
}

Op reduce_prod_op() {
  return reduce_op(
      "ReduceProd", infer_reduced, gradient_of_product,
      with_i8(reduce_kernels<run_reduction<product_reduction>, float, double, int32_t, int64_t>()),
      Precision::wide);
}

Output reduce_prod(Output x, ReduceOptions options, Origin at) {
  return add_node({.op = "ReduceProd", .inputs = {x}, .attrs = to_attrs(options)}, at);
}

}  // namespace troupe
