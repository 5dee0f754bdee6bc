// Sums, differences and products. Integers wrap around.
#include "ops/elementwise/rows.hpp"

namespace troupe {
namespace {

struct SquaredDifference {
  template <class T>
  static T apply(T a, T b) {
    const wrapping<T> d = static_cast<wrapping<T>>(wrapping<T>(a) - wrapping<T>(b));
    return static_cast<T>(d * d);
  }
};

struct Negate {
  template <class T>
  static T apply(T x) {
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(wrapping<T>(0) - wrapping<T>(x));
    else
      return -x;  // 0 - x would lose the sign of zero
  }
};

using Neutral = Identities::Neutral;
// x + -0 is x, also for x = 0 and -0, where x + 0 is 0.
constexpr OpProperties kAdd = {
    .identities = {.neutral = Neutral{.real = -0.0, .integer = 0, .either_side = true}}};
// x - 0 is x, also for x = 0 and -0.
constexpr OpProperties kSubtract = {.identities = {.neutral = Neutral{.real = 0, .integer = 0}}};
// x * 1 is exact for all floats, and NaN stays the same NaN.
constexpr OpProperties kMultiply = {
    .identities = {.neutral = Neutral{.real = 1, .integer = 1, .either_side = true}}};
// -(-x) is x: the sign bit changes twice, and integers wrap around twice.
constexpr OpProperties kNegate = {
    .identities = {.undoes = [](const Node&, const Node&) { return true; }}};

}  // namespace

std::vector<Op> arithmetic_ops() {
  return {
      // c = a + b
      binary({.name = "Add",
              .gradient = da_db<[](Output a, Output b, Output, Output dc) {
                return Pair{undo_broadcast(dc, a), undo_broadcast(dc, b)};
              }>,
              .kernels = with_i8(binary_kernels<Add, float, double, int32_t, int64_t, uint8_t>()),
              .properties = &kAdd}),
      // c = a - b
      binary(
          {.name = "Subtract",
           .gradient = da_db<[](Output a, Output b, Output, Output dc) {
             return Pair{undo_broadcast(dc, a), negate(undo_broadcast(dc, b))};
           }>,
           .kernels = with_i8(binary_kernels<Subtract, float, double, int32_t, int64_t, uint8_t>()),
           .properties = &kSubtract}),
      // c = a * b
      binary(
          {.name = "Multiply",
           .gradient = da_db<[](Output a, Output b, Output, Output dc) {
             return Pair{undo_broadcast(multiply(dc, b), a), undo_broadcast(multiply(dc, a), b)};
           }>,
           .kernels = with_i8(binary_kernels<Multiply, float, double, int32_t, int64_t, uint8_t>()),
           .properties = &kMultiply}),
      // c = (a - b)^2
      binary({.name = "SquaredDifference",
              .gradient = da_db<[](Output a, Output b, Output, Output dc) {
                const Output half = multiply(subtract(a, b), dc), da = add(half, half);
                return Pair{undo_broadcast(da, a), negate(undo_broadcast(da, b))};
              }>,
              .kernels = with_i8(
                  binary_kernels<SquaredDifference, float, double, int32_t, int64_t, uint8_t>()),
              .precision = Precision::wide}),
      // y = -x, of signed numbers
      unary({.name = "Negate",
             .gradient = dx<[](Output, Output, Output dy) { return negate(dy); }>,
             .kernels = with_i8(unary_kernels<Negate, float, double, int32_t, int64_t>()),
             .properties = &kNegate}),
  };
}

Output add(Operand a, Operand b, Origin at) { return node_of("Add", a, b, at); }
Output subtract(Operand a, Operand b, Origin at) { return node_of("Subtract", a, b, at); }
Output multiply(Operand a, Operand b, Origin at) { return node_of("Multiply", a, b, at); }
Output squared_difference(Operand a, Operand b, Origin at) {
  return node_of("SquaredDifference", a, b, at);
}
Output negate(Output x, Origin at) { return node_of("Negate", {x}, at); }

}  // namespace troupe
