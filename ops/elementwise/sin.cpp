// Sin: y = sin(x), x in radians, element-wise; NaN for infinities.
#include "ops/support/elementwise.hpp"
#include "ops/support/vector_math.hpp"

namespace troupe {
namespace {

// Writing dy for dL/dy:  dx = dy * cos(x).
std::vector<Output> gradient(const GradientContext& ctx) {
  const Output x = ctx.input(0), dy = ctx.output_gradient(0);
  return {dy * cos(x)};
}

struct Sin {
  static constexpr bool kWhole = true;
  template <class T>
  static T apply(T x) {
    return math::sin(x);
  }
};

}  // namespace

Op sin_op() {
  return {.name = "Sin",
          .inputs = {"x"},
          .outputs = {"y"},
          .infer_shapes = infer_same_shape,
          .gradient = gradient,
          .kernels = unary_kernels<Sin, float, double>(),
          .in_place = true};
}

Output sin(Output x, Origin at) { return add_node({.op = "Sin", .inputs = {x}}, at); }

}  // namespace troupe
