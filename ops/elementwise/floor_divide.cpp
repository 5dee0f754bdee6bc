// FloorDivide: c = floor(a / b), element-wise and broadcasting.
//   a, b: shapes that broadcast to that of c. Of floats it is the whole number for which b * c + a
//   mod b is nearest to a, as in Python and NumPy: 9 for 1 / 0.1, as 0.1 is a bit more than that.
//   By zero it is a / b. Integers wrap around (the least one divided by -1), and refuse to be
//   divided by zero.
#include <cmath>

#include "ops/support/elementwise.hpp"
#include "ops/support/narrow.hpp"

namespace troupe {
namespace {

// Steps have slope 0 wherever they have one: nothing to pass on.
std::vector<Output> gradient(const GradientContext&) { return {Output{}, Output{}}; }

struct FloorDivide : Division {
  template <class T>
  static T apply(T a, T b) {
    if constexpr (std::is_floating_point_v<T>) {
      const T rest = std::fmod(a, b), cut = (a - rest) / b;
      const T down = ((rest != 0) & ((rest < 0) != (b < 0))) ? cut - 1 : cut;
      const T below = std::floor(down), nearest = down - below > T(0.5) ? below + 1 : below;
      const T quotient = a / b;
      return b == 0 ? quotient : down == 0 ? std::copysign(T{0}, quotient) : nearest;
    } else if constexpr (std::is_signed_v<T>) {
      if (b == -1) return static_cast<T>(wrapping<T>(0) - wrapping<T>(a));  // a / -1 may not fit
      const T cut = a / b;
      return static_cast<T>(cut - ((cut * b != a) & ((a < 0) != (b < 0))));
    } else {
      return static_cast<T>(a / b);
    }
  }
};

}  // namespace

Op floor_divide_op() {
  return {
      .name = "FloorDivide",
      .inputs = {"a", "b"},
      .outputs = {"c"},
      .infer_shapes = infer_broadcast,
      .gradient = gradient,
      .kernels = with_i8(binary_kernels<FloorDivide, float, double, int32_t, int64_t, uint8_t>()),
      .in_place = true};
}

Output floor_divide(Output a, Output b, Origin at) {
  return add_node({.op = "FloorDivide", .inputs = {a, b}}, at);
}

}  // namespace troupe
