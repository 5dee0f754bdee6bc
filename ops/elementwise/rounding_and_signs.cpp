// Rounding to integers, which keeps the sign of zero, and signs. A function of steps has no slope.
#include <cmath>

#include "ops/elementwise/rows.hpp"

namespace troupe {
namespace {

// Integers wrap around: the least one stays what it is.
struct Abs {
  template <class T>
  static T apply(T x) {
    if constexpr (std::is_integral_v<T>) {
      const wrapping<T> w = static_cast<wrapping<T>>(x);
      return static_cast<T>(x < 0 ? 0 - w : w);
    } else {
      return std::abs(x);
    }
  }
};

struct Sign {
  template <class T>
  static T apply(T x) {
    const T sign = static_cast<T>(static_cast<T>(x > 0) - static_cast<T>(x < 0));
    return x != x ? x : sign;
  }
};

struct Heaviside {
  template <class T>
  static T apply(T x, T at_zero) {
    const T step = static_cast<T>(x > 0);
    const T known = x == 0 ? at_zero : step;
    return x != x ? x : known;
  }
};

// da = dc where the signs are the same, else -dc, and 0 at 0, as of Abs. c is constant in b
// wherever it has a slope.
Pair copysign_gradient(Output a, Output b, Output, Output dc) {
  const Output turned = where(logical_xor(signbit(a), signbit(b)), negate(dc), dc);
  const Output at_kink = equal(a, constant_like(0, a));
  return {undo_broadcast(where(at_kink, constant_like(0, dc), turned), a), Output{}};
}

}  // namespace

std::vector<Op> rounding_and_sign_ops() {
  return {
      // y = the greatest integer that is not above x
      unary(
          {.name = "Floor",
           .gradient = no_slope,
           .kernels = unary_kernels<Each<[](auto x) { return std::floor(x); }>, float, double>()}),
      // y = the least integer that is not below x
      unary({.name = "Ceil",
             .gradient = no_slope,
             .kernels = unary_kernels<Each<[](auto x) { return std::ceil(x); }>, float, double>()}),
      // y = the integer next to x, of two the even one: 0.5 gives 0, 1.5 and 2.5 give 2. The
      // processor rounds so by default.
      unary({.name = "Round",
             .gradient = no_slope,
             .kernels = unary_kernels<Each<[](auto x) { return std::rint(x); }>, float, double>()}),
      // y = x without its fraction, that is cut towards zero
      unary(
          {.name = "Trunc",
           .gradient = no_slope,
           .kernels = unary_kernels<Each<[](auto x) { return std::trunc(x); }>, float, double>()}),
      // y = |x|, of signed numbers. Its slope is sign(x), so 0 at 0.
      unary({.name = "Abs",
             .gradient = dx<[](Output x, Output, Output dy) { return dy * sign(x); }>,
             .kernels = with_i8(unary_kernels<Abs, float, double, int32_t, int64_t>())}),
      // y = 1 where x > 0, -1 where x < 0, 0 at 0, of signed numbers; NaN stays NaN.
      unary({.name = "Sign",
             .gradient = no_slope,
             .kernels = with_i8(unary_kernels<Sign, float, double, int32_t, int64_t>())}),
      // y = 0 where x < 0, 1 where x > 0, at_zero where x = 0; NaN stays NaN.
      binary(
          {.name = "Heaviside",
           .inputs = {"x", "at_zero"},
           .outputs = {"y"},
           .gradient = da_db<[](Output x, Output at_zero, Output, Output dy) {
             const Output taken = equal(x, constant_like(0, x));
             return Pair{Output{}, undo_broadcast(where(taken, dy, constant_like(0, dy)), at_zero)};
           }>,
           .kernels =
               with_i8(binary_kernels<Heaviside, float, double, int32_t, int64_t, uint8_t>())}),
      // c = |a| with the sign of b; also of zeros, infinities and NaN, whose sign bit it takes and
      // sets.
      binary({.name = "Copysign",
              .gradient = da_db<copysign_gradient>,
              .kernels = binary_kernels<Each<[](auto a, auto b) { return std::copysign(a, b); }>,
                                        float, double>()}),
  };
}

Output floor(Output x, Origin at) { return node_of("Floor", {x}, at); }
Output ceil(Output x, Origin at) { return node_of("Ceil", {x}, at); }
Output round(Output x, Origin at) { return node_of("Round", {x}, at); }
Output trunc(Output x, Origin at) { return node_of("Trunc", {x}, at); }
Output abs(Output x, Origin at) { return node_of("Abs", {x}, at); }
Output sign(Output x, Origin at) { return node_of("Sign", {x}, at); }
Output heaviside(Operand x, Operand at_zero, Origin at) {
  return node_of("Heaviside", x, at_zero, at);
}
Output copysign(Operand a, Operand b, Origin at) { return node_of("Copysign", a, b, at); }

}  // namespace troupe
