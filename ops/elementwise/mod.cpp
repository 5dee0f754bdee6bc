// Mod: c = a - b * floor(a / b), element-wise and broadcasting: what is left of a between 0 and b,
// with the sign of b, as in Python and NumPy (C's % has the sign of a).
//   a, b: shapes that broadcast to that of c. Of floats the remainder is exact before b is added to
//   it, NaN for b = 0 or an infinite a. Integers refuse to be divided by zero.
#include <cmath>

#include "ops/support/elementwise.hpp"
#include "ops/support/narrow.hpp"

namespace troupe {
namespace {

// Writing dc for dL/dc:  da = dc  and  db = -dc * floor(a / b), as the quotient has no slope.
std::vector<Output> gradient(const GradientContext& ctx) {
  const Output a = ctx.input(0), b = ctx.input(1), dc = ctx.output_gradient(0);
  const Output db = negate(multiply(dc, floor_divide(a, b)));
  return {undo_broadcast(dc, a), undo_broadcast(db, b)};
}

struct Mod : Division {
  template <class T>
  static T apply(T a, T b) {
    if constexpr (std::is_floating_point_v<T>) {
      const T rest = std::fmod(a, b), moved = (rest < 0) != (b < 0) ? rest + b : rest;
      return rest == 0 ? std::copysign(T{0}, b) : moved;
    } else if constexpr (std::is_signed_v<T>) {
      const T rest = static_cast<T>(a % (b == -1 ? 1 : b));  // a / -1 may not fit
      return static_cast<T>(((rest != 0) & ((rest < 0) != (b < 0))) ? rest + b : rest);
    } else {
      return static_cast<T>(a % b);
    }
  }
};

}  // namespace

Op mod_op() {
  return {.name = "Mod",
          .inputs = {"a", "b"},
          .outputs = {"c"},
          .infer_shapes = infer_broadcast,
          .gradient = gradient,
          .kernels = with_i8(binary_kernels<Mod, float, double, int32_t, int64_t, uint8_t>()),
          .in_place = true};
}

Output mod(Output a, Output b, Origin at) { return add_node({.op = "Mod", .inputs = {a, b}}, at); }

}  // namespace troupe
