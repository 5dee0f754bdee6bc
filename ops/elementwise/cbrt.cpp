// Cbrt: y = the cube root of x, element-wise, negative for negative x.
#include "ops/support/elementwise.hpp"
#include "ops/support/vector_math.hpp"

namespace troupe {
namespace {

// Writing dy for dL/dy:  dx = dy / (3 * y^2).
std::vector<Output> gradient(const GradientContext& ctx) {
  const Output y = ctx.output(0), dy = ctx.output_gradient(0);
  return {dy / (square(y) * 3)};
}

struct Cbrt {
  static constexpr bool kWhole = true;
  template <class T>
  static T apply(T x) {
    return math::cbrt(x);
  }
};

}  // namespace

Op cbrt_op() {
  return {.name = "Cbrt",
          .inputs = {"x"},
          .outputs = {"y"},
          .infer_shapes = infer_same_shape,
          .gradient = gradient,
          .kernels = unary_kernels<Cbrt, float, double>(),
          .in_place = true};
}

Output cbrt(Output x, Origin at) { return add_node({.op = "Cbrt", .inputs = {x}}, at); }

}  // namespace troupe
