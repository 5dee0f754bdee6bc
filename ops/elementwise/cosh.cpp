// Cosh: y = (e^x + e^-x) / 2, element-wise.
#include "ops/support/elementwise.hpp"
#include "ops/support/vector_math.hpp"

namespace troupe {
namespace {

// Writing dy for dL/dy:  dx = dy * sinh(x).
std::vector<Output> gradient(const GradientContext& ctx) {
  const Output x = ctx.input(0), dy = ctx.output_gradient(0);
  return {dy * sinh(x)};
}

struct Cosh {
  static constexpr bool kWhole = true;
  template <class T>
  static T apply(T x) {
    return math::cosh(x);
  }
};

}  // namespace

Op cosh_op() {
  return {.name = "Cosh",
          .inputs = {"x"},
          .outputs = {"y"},
          .infer_shapes = infer_same_shape,
          .gradient = gradient,
          .kernels = unary_kernels<Cosh, float, double>(),
          .in_place = true,
          .precision = Precision::wide};
}

Output cosh(Output x, Origin at) { return add_node({.op = "Cosh", .inputs = {x}}, at); }

}  // namespace troupe
