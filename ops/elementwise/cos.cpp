// Cos: y = cos(x), x in radians, element-wise; NaN for infinities.
#include "ops/support/elementwise.hpp"
#include "ops/support/vector_math.hpp"

namespace troupe {
namespace {

// Writing dy for dL/dy:  dx = -dy * sin(x).
std::vector<Output> gradient(const GradientContext& ctx) {
  const Output x = ctx.input(0), dy = ctx.output_gradient(0);
  return {-(dy * sin(x))};
}

struct Cos {
  static constexpr bool kWhole = true;
  template <class T>
  static T apply(T x) {
    return math::cos(x);
  }
};

}  // namespace

Op cos_op() {
  return {.name = "Cos",
          .inputs = {"x"},
          .outputs = {"y"},
          .infer_shapes = infer_same_shape,
          .gradient = gradient,
          .kernels = unary_kernels<Cos, float, double>(),
          .in_place = true};
}

Output cos(Output x, Origin at) { return add_node({.op = "Cos", .inputs = {x}}, at); }

}  // namespace troupe
