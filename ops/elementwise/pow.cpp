// Pow: c = a^b, element-wise and broadcasting.
//   a, b: shapes that broadcast to that of c. Floats as in C: NaN for a negative a and a broken b,
//   and 1 for a = 1 or b = 0, also beside NaN. Integers wrap around, and refuse negative powers.
#include <concepts>

#include "ops/support/elementwise.hpp"
#include "ops/support/vector_math.hpp"

namespace troupe {
namespace {

// Writing dc for dL/dc:  da = dc * b * a^(b - 1)  and  db = dc * c * log(a).
// At a = b = 0, where a^-1 is infinite, da = 0. For a <= 0, where c has no slope in b or is 0
// around, db = 0.
std::vector<Output> gradient(const GradientContext& ctx) {
  const Output a = ctx.input(0), b = ctx.input(1), c = ctx.output(0), dc = ctx.output_gradient(0);
  const Output zero = constant_like(0, a), one = constant_like(1, a);
  const Output both_zero = logical_and(equal(a, zero), equal(b, zero));
  const Output da = dc * b * pow(a, where(both_zero, zero, b - one));
  const Output positive = greater(a, zero);
  const Output db = where(positive, dc * c, zero) * log(where(positive, a, one));
  return {undo_broadcast(da, a), undo_broadcast(db, b)};
}

struct Pow {
  static constexpr bool kWhole = true;
  template <class T>
  static T apply(T a, T b) {
    if constexpr (std::is_floating_point_v<T>) {
      return math::pow(a, b);
    } else {
      using U = wrapping<T>;
      U base = static_cast<U>(a), power = 1;
      for (U e = static_cast<U>(b); e != 0; e = static_cast<U>(e >> 1)) {
        power = e & 1 ? static_cast<U>(power * base) : power;
        base = static_cast<U>(base * base);
      }
      return static_cast<T>(power);
    }
  }
  template <std::signed_integral T>
  static void check(const KernelContext& ctx, const T* b, int64_t n) {
    for (int64_t i = 0; i < n; ++i)
      if (b[i] < 0)
        throw ctx.error("raises an integer to a negative power: element ", i, " of b is ", b[i],
                        "; cast both to f32");
  }
};

}  // namespace

Op pow_op() {
  return {.name = "Pow",
          .inputs = {"a", "b"},
          .outputs = {"c"},
          .infer_shapes = infer_broadcast,
          .gradient = gradient,
          .kernels = binary_kernels<Pow, float, double, int32_t, int64_t, uint8_t>(),
          .in_place = true,
          .precision = Precision::wide};
}

Output pow(Output a, Output b, Origin at) { return add_node({.op = "Pow", .inputs = {a, b}}, at); }

}  // namespace troupe
