// Erf: y = 2 / sqrt(pi) * (the integral of e^(-t^2) from 0 to x), element-wise.
#include <numbers>

#include "ops/support/elementwise.hpp"
#include "ops/support/vector_math.hpp"

namespace troupe {
namespace {

// Writing dy for dL/dy:  dx = dy * 2 / sqrt(pi) * e^(-x^2).
std::vector<Output> gradient(const GradientContext& ctx) {
  const Output x = ctx.input(0), dy = ctx.output_gradient(0);
  return {dy * exp(-square(x)) * (2 * std::numbers::inv_sqrtpi)};
}

struct Erf {
  static constexpr bool kWhole = true;
  template <class T>
  static T apply(T x) {
    return math::erf(x);
  }
};

}  // namespace

Op erf_op() {
  return {.name = "Erf",
          .inputs = {"x"},
          .outputs = {"y"},
          .infer_shapes = infer_same_shape,
          .gradient = gradient,
          .kernels = unary_kernels<Erf, float, double>(),
          .in_place = true};
}

Output erf(Output x, Origin at) { return add_node({.op = "Erf", .inputs = {x}}, at); }

}  // namespace troupe
