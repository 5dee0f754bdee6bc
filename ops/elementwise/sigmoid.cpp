// Sigmoid: y = 1 / (1 + e^-x) = e^x / (1 + e^x), element-wise. The second form is exact down to
// denormal numbers, where e^-x overflows.
#include "ops/support/elementwise.hpp"
#include "ops/support/vector_math.hpp"

namespace troupe {
namespace {

// Writing dy for dL/dy:  dx = dy * y * (1 - y).
std::vector<Output> gradient(const GradientContext& ctx) {
  const Output y = ctx.output(0), dy = ctx.output_gradient(0);
  return {multiply(multiply(dy, y), subtract(constant_like(1, y), y))};
}

struct Sigmoid {
  static constexpr bool kWhole = true;
  template <class T>
  static T apply(T x) {
    const T most = sizeof(T) == 4 ? 80 : 700;  // from far below on, y is 1, and e^x is finite
    const T e = math::exp(most < x ? most : x);
    return e / (1 + e);
  }
};

}  // namespace

Op sigmoid_op() {
  return {.name = "Sigmoid",
          .inputs = {"x"},
          .outputs = {"y"},
          .infer_shapes = infer_same_shape,
          .gradient = gradient,
          .kernels = unary_kernels<Sigmoid, float, double>(),
          .in_place = true};
}

Output sigmoid(Output x, Origin at) { return add_node({.op = "Sigmoid", .inputs = {x}}, at); }

}  // namespace troupe
