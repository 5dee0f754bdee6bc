// Acosh: y = the number in [0, infinity] whose cosh is x, log(x + sqrt(x^2 - 1)), element-wise; NaN
// below 1.
#include "ops/support/elementwise.hpp"
#include "ops/support/vector_math.hpp"

namespace troupe {
namespace {

// Writing dy for dL/dy:  dx = dy / sinh(y), which is sqrt(x^2 - 1) without a square that overflows.
std::vector<Output> gradient(const GradientContext& ctx) {
  const Output y = ctx.output(0), dy = ctx.output_gradient(0);
  return {dy / sinh(y)};
}

struct Acosh {
  static constexpr bool kWhole = true;
  template <class T>
  static T apply(T x) {
    return math::acosh(x);
  }
};

}  // namespace

Op acosh_op() {
  return {.name = "Acosh",
          .inputs = {"x"},
          .outputs = {"y"},
          .infer_shapes = infer_same_shape,
          .gradient = gradient,
          .kernels = unary_kernels<Acosh, float, double>(),
          .in_place = true,
          .precision = Precision::wide};
}

Output acosh(Output x, Origin at) { return add_node({.op = "Acosh", .inputs = {x}}, at); }

}  // namespace troupe
