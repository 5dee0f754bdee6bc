// Relu: y = max(x, 0), element-wise; NaN stays NaN.
#include "ops/support/elementwise.hpp"
#include "ops/support/narrow.hpp"

namespace troupe {
namespace {

// Writing dy for dL/dy:  dx = dy where y > 0, else 0 (at 0 as well).
std::vector<Output> gradient(const GradientContext& ctx) {
  const Output dy = ctx.output_gradient(0), zero = constant_like(0, dy);
  return {where(greater(ctx.output(0), zero), dy, zero)};
}

struct Relu {
  template <class T>
  static T apply(T x) {
    return x < T{0} ? T{0} : x;
  }
};

}  // namespace

Op relu_op() {
  return {.name = "Relu",
          .inputs = {"x"},
          .outputs = {"y"},
          .infer_shapes = infer_same_shape,
          .gradient = gradient,
          .kernels = with_i8(unary_kernels<Relu, float, double, int32_t, int64_t>()),
          .in_place = true};
}

Output relu(Output x, Origin at) { return add_node({.op = "Relu", .inputs = {x}}, at); }

}  // namespace troupe
