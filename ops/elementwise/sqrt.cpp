// Sqrt: y = the square root of x, element-wise, rounded as IEEE 754 says; NaN below 0.
#include <cmath>

#include "ops/support/elementwise.hpp"

namespace troupe {
namespace {

// Writing dy for dL/dy:  dx = dy / (2 * y).
std::vector<Output> gradient(const GradientContext& ctx) {
  const Output y = ctx.output(0), dy = ctx.output_gradient(0);
  return {divide(dy, add(y, y))};
}

struct Sqrt {
  template <class T>
  static T apply(T x) {
    return std::sqrt(x);
  }
};

}  // namespace

Op sqrt_op() {
  return {.name = "Sqrt",
          .inputs = {"x"},
          .outputs = {"y"},
          .infer_shapes = infer_same_shape,
          .gradient = gradient,
          .kernels = unary_kernels<Sqrt, float, double>(),
          .in_place = true};
}

Output sqrt(Output x, Origin at) { return add_node({.op = "Sqrt", .inputs = {x}}, at); }

}  // namespace troupe
