// Powers and roots.
#include <cmath>
#include <concepts>

#include "ops/elementwise/rows.hpp"
#include "ops/support/vector_math.hpp"

namespace troupe {
namespace {

struct Square {
  template <class T>
  static T apply(T x) {
    return static_cast<T>(wrapping<T>(x) * wrapping<T>(x));
  }
};

// a^b as in C: NaN for a negative a and a broken b, and 1 for a = 1 or b = 0, also beside NaN.
// Integers wrap around, and refuse negative powers.
struct Power {
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

// The slopes are b * a^(b - 1) and c * log(a). At a = b = 0, where a^-1 is infinite, da = 0. For
// a <= 0, where c has no slope in b or is 0 around, db = 0.
Pair power_gradient(Output a, Output b, Output c, Output dc) {
  const Output zero = constant_like(0, a), one = constant_like(1, a);
  const Output both_zero = logical_and(equal(a, zero), equal(b, zero));
  const Output da = dc * b * pow(a, where(both_zero, zero, b - one));
  const Output positive = greater(a, zero);
  const Output db = where(positive, dc * c, zero) * log(where(positive, a, one));
  return {undo_broadcast(da, a), undo_broadcast(db, b)};
}

// The slopes are a / c and b / c, 0 at the origin.
Pair hypot_gradient(Output a, Output b, Output c, Output dc) {
  const Output length = where(equal(c, constant_like(0, c)), constant_like(1, c), c);
  const Output da = multiply(dc, divide(a, length)), db = multiply(dc, divide(b, length));
  return {undo_broadcast(da, a), undo_broadcast(db, b)};
}

}  // namespace

std::vector<Op> power_and_root_ops() {
  return {
      // y = x * x. Integers wrap around.
      unary({.name = "Square",
             .gradient = dx<[](Output x, Output, Output dy) {
               return multiply(multiply(dy, constant_like(2, x)), x);
             }>,
             .kernels = with_i8(unary_kernels<Square, float, double, int32_t, int64_t, uint8_t>()),
             .precision = Precision::wide}),
      // y = the square root of x, rounded as IEEE 754 says; NaN below 0.
      unary({.name = "Sqrt",
             .gradient = dx<[](Output, Output y, Output dy) { return divide(dy, add(y, y)); }>,
             .kernels = unary_kernels<Each<[](auto x) { return std::sqrt(x); }>, float, double>()}),
      // y = 1 / sqrt(x); infinity with the sign of x at 0, NaN below.
      unary(
          {.name = "Rsqrt",
           .gradient = dx<[](Output x, Output y, Output dy) { return dy * y / x * -0.5; }>,
           .kernels = unary_kernels<Each<[](auto x) { return 1 / std::sqrt(x); }>, float, double>(),
           .precision = Precision::wide}),
      // y = the cube root of x, negative for negative x.
      unary({.name = "Cbrt",
             .gradient = dx<[](Output, Output y, Output dy) { return dy / (square(y) * 3); }>,
             .kernels = math_kernels<[](auto x) { return math::cbrt(x); }>()}),
      // c = a^b
      binary({.name = "Pow",
              .gradient = da_db<power_gradient>,
              .kernels = binary_kernels<Power, float, double, int32_t, int64_t, uint8_t>(),
              .precision = Precision::wide}),
      // c = sqrt(a^2 + b^2). A square that is too large, or too small, for the dtype does no harm.
      // Infinite if either is, also beside NaN.
      binary({.name = "Hypot",
              .gradient = da_db<hypot_gradient>,
              .kernels = math_kernels<[](auto a, auto b) { return math::hypot(a, b); }>()}),
  };
}

Output square(Output x, Origin at) { return node_of("Square", {x}, at); }
Output sqrt(Output x, Origin at) { return node_of("Sqrt", {x}, at); }
Output rsqrt(Output x, Origin at) { return node_of("Rsqrt", {x}, at); }
Output cbrt(Output x, Origin at) { return node_of("Cbrt", {x}, at); }
Output pow(Operand a, Operand b, Origin at) { return node_of("Pow", a, b, at); }
Output hypot(Operand a, Operand b, Origin at) { return node_of("Hypot", a, b, at); }

}  // namespace troupe
