// Quotients and remainders. Floats follow IEEE 754. Integers wrap around (the least one divided by
// -1), and refuse to be divided by zero.
#include <cmath>

#include "ops/elementwise/rows.hpp"

namespace troupe {
namespace {

struct Division {
  // The processor stops a program that divides an integer by zero.
  template <std::integral T>
  static void check(const KernelContext& ctx, const T* b, int64_t n) {
    for (int64_t i = 0; i < n; ++i)
      if (b[i] == 0)
        throw ctx.error("divides an integer by zero: element ", i,
                        " of b; make b positive, or cast to f32");
  }
};

struct Divide : Division {
  template <class T>
  static T apply(T a, T b) {
    if constexpr (std::is_signed_v<T> && std::is_integral_v<T>)
      if (b == -1) return static_cast<T>(wrapping<T>(0) - wrapping<T>(a));  // a / -1 may not fit
    return static_cast<T>(a / b);
  }
};

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

// The quotient has no slope, so db = -dc * trunc(a / b). It is made of floor(|a| / |b|), which
// FloorDivide does not round up to the next whole number.
Pair fmod_gradient(Output a, Output b, Output, Output dc) {
  const Output share = multiply(dc, floor_divide(copysign(a, b), b));
  const Output db = where(logical_xor(signbit(a), signbit(b)), share, negate(share));
  return {undo_broadcast(dc, a), undo_broadcast(db, b)};
}

// x / 1 is exact for all floats, and never refused for integers.
constexpr OpProperties kDivide = {
    .identities = {.neutral = Identities::Neutral{.real = 1, .integer = 1}}};

}  // namespace

std::vector<Op> division_ops() {
  return {
      // c = a / b. Integers are cut towards zero.
      binary(
          {.name = "Divide",
           .gradient = da_db<[](Output a, Output b, Output c, Output dc) {
             const Output da = divide(dc, b);
             return Pair{undo_broadcast(da, a), undo_broadcast(negate(multiply(da, c)), b)};
           }>,
           .kernels = with_i8(binary_kernels<Divide, float, double, int32_t, int64_t, uint8_t>()),
           .precision = Precision::wide,
           .properties = &kDivide}),
      // c = floor(a / b). The quotient of floats is the whole number for which b * c + a mod b is
      // nearest to
      // a, as in Python and NumPy: 9 for 1 / 0.1, as 0.1 is a bit more than that. By zero it is
      // a / b.
      binary({.name = "FloorDivide",
              .gradient = no_slope,
              .kernels = with_i8(
                  binary_kernels<FloorDivide, float, double, int32_t, int64_t, uint8_t>())}),
      // c = a - b * floor(a / b): what is left of a between 0 and b, with the sign of b, as in
      // Python and NumPy. The remainder of floats is exact before b is added to it, NaN for b = 0
      // or
      // an infinite a. The quotient has no slope.
      binary({.name = "Mod",
              .gradient = da_db<[](Output a, Output b, Output, Output dc) {
                const Output db = negate(multiply(dc, floor_divide(a, b)));
                return Pair{undo_broadcast(dc, a), undo_broadcast(db, b)};
              }>,
              .kernels = with_i8(binary_kernels<Mod, float, double, int32_t, int64_t, uint8_t>())}),
      // c = a - b * trunc(a / b): what is left of a, with the sign of a, as of C's fmod and %. For
      // floats it is exact, NaN for b = 0 or an infinite a.
      binary(
          {.name = "Fmod",
           .gradient = da_db<fmod_gradient>,
           .kernels = with_i8(binary_kernels<Fmod, float, double, int32_t, int64_t, uint8_t>())}),
      // y = 1 / x; infinity with the sign of x at 0.
      unary({.name = "Reciprocal",
             .gradient = dx<[](Output, Output y, Output dy) { return -(dy * y * y); }>,
             .kernels = unary_kernels<Each<[](auto x) { return 1 / x; }>, float, double>(),
             .precision = Precision::wide}),
  };
}

Output divide(Operand a, Operand b, Origin at) { return node_of("Divide", a, b, at); }
Output floor_divide(Operand a, Operand b, Origin at) { return node_of("FloorDivide", a, b, at); }
Output mod(Operand a, Operand b, Origin at) { return node_of("Mod", a, b, at); }
Output fmod(Operand a, Operand b, Origin at) { return node_of("Fmod", a, b, at); }
Output reciprocal(Output x, Origin at) { return node_of("Reciprocal", {x}, at); }

}  // namespace troupe
