// ReduceSum: y = the sum of x over axes (all of them if none is named); 0 for no elements.
//   x: any shape   y: x without the axes, or with size 1 there if keep_dims. Integers wrap around.
#include "ops/gradients.hpp"
#include "ops/support/narrow.hpp"
#include "ops/reductions/reduction.hpp"

namespace troupe {
namespace {

// Writing dy for dL/dy:  dx = dy, broadcast over the summed elements.
std::vector<Output> gradient(const GradientContext& ctx) {
  return {reduce_gradient(ctx.output_gradient(0), ctx.input(0), reduce_options(ctx.node()))};
}

struct Sum : Add {
  template <class T>
  static constexpr T nothing = 0;
};

}  // namespace

const Reduction& sum_reduction(DType dtype) {
  return find_reduction<Sum, float, double, int32_t, int64_t>(dtype);
}

Op reduce_sum_op() {
  return reduce_op(
      "ReduceSum", infer_reduced, gradient,
      with_i8(reduce_kernels<run_reduction<sum_reduction>, float, double, int32_t, int64_t>()),
      Precision::wide);
}

Output reduce_sum(Output x, ReduceOptions options, Origin at) {
  return add_node({.op = "ReduceSum", .inputs = {x}, .attrs = to_attrs(options)}, at);
}

}  // namespace troupe
