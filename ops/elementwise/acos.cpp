// Acos: y = the angle in [0, pi] whose cosine is x, element-wise; NaN outside [-1, 1].
#include "ops/support/elementwise.hpp"
#include "ops/support/vector_math.hpp"

namespace troupe {
namespace {

// Writing dy for dL/dy:  dx = -dy / sqrt(1 - x^2), as a product that is exact close to 1.
std::vector<Output> gradient(const GradientContext& ctx) {
  const Output x = ctx.input(0), dy = ctx.output_gradient(0);
  return {-(dy * rsqrt((1 - x) * (1 + x)))};
}

struct Acos {
  static constexpr bool kWhole = true;
  template <class T>
  static T apply(T x) {
    return math::acos(x);
  }
};

}  // namespace

Op acos_op() {
  return {.name = "Acos",
          .inputs = {"x"},
          .outputs = {"y"},
          .infer_shapes = infer_same_shape,
          .gradient = gradient,
          .kernels = unary_kernels<Acos, float, double>(),
          .in_place = true,
          .precision = Precision::wide};
}

Output acos(Output x, Origin at) { return add_node({.op = "Acos", .inputs = {x}}, at); }

}  // namespace troupe
