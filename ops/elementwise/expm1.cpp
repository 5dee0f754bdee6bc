// Expm1: y = e^x - 1, element-wise, exact where x is close to 0.
#include "ops/support/elementwise.hpp"
#include "ops/support/vector_math.hpp"

namespace troupe {
namespace {

// Writing dy for dL/dy:  dx = dy * (y + 1).
std::vector<Output> gradient(const GradientContext& ctx) {
  const Output y = ctx.output(0), dy = ctx.output_gradient(0);
  return {dy * (y + 1)};
}

struct Expm1 {
  static constexpr bool kWhole = true;
  template <class T>
  static T apply(T x) {
    return math::expm1(x);
  }
};

}  // namespace

Op expm1_op() {
  return {.name = "Expm1",
          .inputs = {"x"},
          .outputs = {"y"},
          .infer_shapes = infer_same_shape,
          .gradient = gradient,
          .kernels = unary_kernels<Expm1, float, double>(),
          .in_place = true,
          .precision = Precision::wide};
}

Output expm1(Output x, Origin at) { return add_node({.op = "Expm1", .inputs = {x}}, at); }

}  // namespace troupe
