// Fmod: c = a - b * trunc(a / b), element-wise and broadcasting: what is left of a, with the sign
// of a, as of C's fmod and % (Mod has the sign of b).
//   a, b: shapes that broadcast to that of c. Of floats it is exact, NaN for b = 0 or an infinite
//   a. Integers refuse to be divided by zero.
#include <cmath>

#include "ops/support/elementwise.hpp"
#include "ops/support/narrow.hpp"

namespace troupe {
namespace {

// Writing dc for dL/dc:  da = dc  and  db = -dc * trunc(a / b), as the quotient has no slope. It is
// made of floor(|a| / |b|), which FloorDivide does not round up to the next whole number.
std::vector<Output> gradient(const GradientContext& ctx) {
  const Output a = ctx.input(0), b = ctx.input(1), dc = ctx.output_gradient(0);
  const Output share = multiply(dc, floor_divide(copysign(a, b), b));
  const Output db = where(logical_xor(signbit(a), signbit(b)), share, negate(share));
  return {undo_broadcast(dc, a), undo_broadcast(db, b)};
}

struct Fmod : Division {
  template <class T>
  static T apply(T a, T b) {
    if constexpr (std::is_floating_point_v<T>)
      return std::fmod(a, b);
    else if constexpr (std::is_signed_v<T>)
      return static_cast<T>(a % (b == -1 ? 1 : b));  // a / -1 may not fit
    else
      return static_cast<T>(a % b);
  }
};

}  // namespace

Op fmod_op() {
  return {.name = "Fmod",
          .inputs = {"a", "b"},
          .outputs = {"c"},
          .infer_shapes = infer_broadcast,
          .gradient = gradient,
          .kernels = with_i8(binary_kernels<Fmod, float, double, int32_t, int64_t, uint8_t>()),
          .in_place = true};
}

Output fmod(Output a, Output b, Origin at) {
  return add_node({.op = "Fmod", .inputs = {a, b}}, at);
}

}  // namespace troupe
