// Erfc: y = 1 - erf(x), element-wise, exact where erf(x) is close to 1.
#include <numbers>

#include "ops/support/elementwise.hpp"
#include "ops/support/vector_math.hpp"

namespace troupe {
namespace {

// Writing dy for dL/dy:  dx = -dy * 2 / sqrt(pi) * e^(-x^2).
std::vector<Output> gradient(const GradientContext& ctx) {
  const Output x = ctx.input(0), dy = ctx.output_gradient(0);
  return {dy * exp(-square(x)) * (-2 * std::numbers::inv_sqrtpi)};
}

struct Erfc {
  static constexpr bool kWhole = true;
  template <class T>
  static T apply(T x) {
    return math::erfc(x);
  }
};

}  // namespace

Op erfc_op() {
  return {.name = "Erfc",
          .inputs = {"x"},
          .outputs = {"y"},
          .infer_shapes = infer_same_shape,
          .gradient = gradient,
          .kernels = unary_kernels<Erfc, float, double>(),
          .in_place = true};
}

Output erfc(Output x, Origin at) { return add_node({.op = "Erfc", .inputs = {x}}, at); }

}  // namespace troupe
