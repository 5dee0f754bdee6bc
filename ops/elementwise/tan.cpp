// Tan: y = tan(x), x in radians, element-wise; NaN for infinities.
#include "ops/support/elementwise.hpp"
#include "ops/support/vector_math.hpp"

namespace troupe {
namespace {

// Writing dy for dL/dy:  dx = dy * (1 + y^2).
std::vector<Output> gradient(const GradientContext& ctx) {
  const Output y = ctx.output(0), dy = ctx.output_gradient(0);
  return {dy * (1 + square(y))};
}

struct Tan {
  static constexpr bool kWhole = true;
  template <class T>
  static T apply(T x) {
    return math::tan(x);
  }
};

}  // namespace

Op tan_op() {
  return {.name = "Tan",
          .inputs = {"x"},
          .outputs = {"y"},
          .infer_shapes = infer_same_shape,
          .gradient = gradient,
          .kernels = unary_kernels<Tan, float, double>(),
          .in_place = true,
          .precision = Precision::wide};
}

Output tan(Output x, Origin at) { return add_node({.op = "Tan", .inputs = {x}}, at); }

}  // namespace troupe
