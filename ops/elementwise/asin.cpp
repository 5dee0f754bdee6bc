// Asin: y = the angle in [-pi/2, pi/2] whose sine is x, element-wise; NaN outside [-1, 1].
#include "ops/support/elementwise.hpp"
#include "ops/support/vector_math.hpp"

namespace troupe {
namespace {

// Writing dy for dL/dy:  dx = dy / sqrt(1 - x^2), as a product that is exact close to 1.
std::vector<Output> gradient(const GradientContext& ctx) {
  const Output x = ctx.input(0), dy = ctx.output_gradient(0);
  return {dy * rsqrt((1 - x) * (1 + x))};
}

struct Asin {
  static constexpr bool kWhole = true;
  template <class T>
  static T apply(T x) {
    return math::asin(x);
  }
};

}  // namespace

Op asin_op() {
  return {.name = "Asin",
          .inputs = {"x"},
          .outputs = {"y"},
          .infer_shapes = infer_same_shape,
          .gradient = gradient,
          .kernels = unary_kernels<Asin, float, double>(),
          .in_place = true,
          .precision = Precision::wide};
}

Output asin(Output x, Origin at) { return add_node({.op = "Asin", .inputs = {x}}, at); }

}  // namespace troupe
