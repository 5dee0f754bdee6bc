// Trigonometry: functions of angles in radians, and the angles that they are of.
#include "ops/elementwise/rows.hpp"
#include "ops/support/vector_math.hpp"

namespace troupe {

std::vector<Op> trigonometry_ops() {
  return {
      // y = sin(x); NaN for infinities.
      unary({.name = "Sin",
             .gradient = dx<[](Output x, Output, Output dy) { return dy * cos(x); }>,
             .kernels = math_kernels<[](auto x) { return math::sin(x); }>()}),
      // y = cos(x); NaN for infinities.
      unary({.name = "Cos",
             .gradient = dx<[](Output x, Output, Output dy) { return -(dy * sin(x)); }>,
             .kernels = math_kernels<[](auto x) { return math::cos(x); }>()}),
      // y = tan(x); NaN for infinities.
      unary({.name = "Tan",
             .gradient = dx<[](Output, Output y, Output dy) { return dy * (1 + square(y)); }>,
             .kernels = math_kernels<[](auto x) { return math::tan(x); }>(),
             .precision = Precision::wide}),
      // y = the angle in [-pi/2, pi/2] whose sine is x; NaN outside [-1, 1]. Its slope is
      // 1 / sqrt(1 - x^2), as a product that is exact close to 1.
      unary({.name = "Asin",
             .gradient =
                 dx<[](Output x, Output, Output dy) { return dy * rsqrt((1 - x) * (1 + x)); }>,
             .kernels = math_kernels<[](auto x) { return math::asin(x); }>(),
             .precision = Precision::wide}),
      // y = the angle in [0, pi] whose cosine is x; NaN outside [-1, 1].
      unary({.name = "Acos",
             .gradient =
                 dx<[](Output x, Output, Output dy) { return -(dy * rsqrt((1 - x) * (1 + x))); }>,
             .kernels = math_kernels<[](auto x) { return math::acos(x); }>(),
             .precision = Precision::wide}),
      // y = the angle in [-pi/2, pi/2] whose tangent is x.
      unary({.name = "Atan",
             .gradient = dx<[](Output x, Output, Output dy) { return dy / (1 + square(x)); }>,
             .kernels = math_kernels<[](auto x) { return math::atan(x); }>()}),
      // c = the angle of the point (x, y), in (-pi, pi]; 0 or pi, with the sign of y, for the
      // points
      // of the axis, and at the origin by the signs of its zeros.
      binary({.name = "Atan2",
              .inputs = {"y", "x"},
              .gradient = da_db<[](Output y, Output x, Output, Output dc) {
                const Output share = dc / (square(x) + square(y));
                return Pair{undo_broadcast(share * x, y), negate(undo_broadcast(share * y, x))};
              }>,
              .kernels = math_kernels<[](auto y, auto x) { return math::atan2(y, x); }>()}),
  };
}

Output sin(Output x, Origin at) { return node_of("Sin", {x}, at); }
Output cos(Output x, Origin at) { return node_of("Cos", {x}, at); }
Output tan(Output x, Origin at) { return node_of("Tan", {x}, at); }
Output asin(Output x, Origin at) { return node_of("Asin", {x}, at); }
Output acos(Output x, Origin at) { return node_of("Acos", {x}, at); }
Output atan(Output x, Origin at) { return node_of("Atan", {x}, at); }
Output atan2(Operand y, Operand x, Origin at) { return node_of("Atan2", y, x, at); }

}  // namespace troupe
