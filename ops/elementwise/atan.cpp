// Atan: y = the angle in [-pi/2, pi/2] whose tangent is x, element-wise.
#include "ops/support/elementwise.hpp"
#include "ops/support/vector_math.hpp"

namespace troupe {
namespace {

// Writing dy for dL/dy:  dx = dy / (1 + x^2).
std::vector<Output> gradient(const GradientContext& ctx) {
  const Output x = ctx.input(0), dy = ctx.output_gradient(0);
  return {dy / (1 + square(x))};
}

struct Atan {
  static constexpr bool kWhole = true;
  template <class T>
  static T apply(T x) {
    return math::atan(x);
  }
};

}  // namespace

Op atan_op() {
  return {.name = "Atan",
          .inputs = {"x"},
          .outputs = {"y"},
          .infer_shapes = infer_same_shape,
          .gradient = gradient,
          .kernels = unary_kernels<Atan, float, double>(),
          .in_place = true};
}

Output atan(Output x, Origin at) { return add_node({.op = "Atan", .inputs = {x}}, at); }

}  // namespace troupe
