// Atan2: c = the angle of the point (x, y), in (-pi, pi], element-wise and broadcasting; 0 or pi,
// with the sign of y, for the points of the axis, and at the origin by the signs of its zeros.
//   y, x: shapes that broadcast to that of c, f32 or f64.
#include "ops/support/elementwise.hpp"
#include "ops/support/vector_math.hpp"

namespace troupe {
namespace {

// Writing dc for dL/dc:  dy = dc * x / (x^2 + y^2)  and  dx = -dc * y / (x^2 + y^2).
std::vector<Output> gradient(const GradientContext& ctx) {
  const Output y = ctx.input(0), x = ctx.input(1);
  const Output share = ctx.output_gradient(0) / (square(x) + square(y));
  return {undo_broadcast(share * x, y), negate(undo_broadcast(share * y, x))};
}

struct Atan2 {
  static constexpr bool kWhole = true;
  template <class T>
  static T apply(T y, T x) {
    return math::atan2(y, x);
  }
};

}  // namespace

Op atan2_op() {
  return {.name = "Atan2",
          .inputs = {"y", "x"},
          .outputs = {"c"},
          .infer_shapes = infer_broadcast,
          .gradient = gradient,
          .kernels = binary_kernels<Atan2, float, double>(),
          .in_place = true};
}

Output atan2(Output y, Output x, Origin at) {
  return add_node({.op = "Atan2", .inputs = {y, x}}, at);
}

}  // namespace troupe
