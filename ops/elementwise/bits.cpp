// Bits of integers. No op here has a gradient.
#include <concepts>
#include <functional>

#include "ops/elementwise/rows.hpp"

namespace troupe {
namespace {

struct Shift {
  template <class T>
  static constexpr T kBits = 8 * sizeof(T);

  template <std::signed_integral T>
  static void check(const KernelContext& ctx, const T* b, int64_t n) {
    for (int64_t i = 0; i < n; ++i)
      if (b[i] < 0)
        throw ctx.error("shifts by a negative number of bits: element ", i, " of b is ", b[i],
                        "; shift the other way");
  }
};

struct LeftShift : Shift {
  template <class T>
  static T apply(T a, T b) {
    const wrapping<T> moved = static_cast<wrapping<T>>(wrapping<T>(a) << (b & (kBits<T> - 1)));
    return static_cast<T>(b < kBits<T> ? moved : 0);
  }
};

struct RightShift : Shift {
  template <class T>
  static T apply(T a, T b) {
    if constexpr (std::is_signed_v<T>) {
      return static_cast<T>(a >> (b < kBits<T> ? b : kBits<T> - 1));
    } else {
      const T moved = static_cast<T>(a >> (b & (kBits<T> - 1)));
      return b < kBits<T> ? moved : T{0};
    }
  }
};

}  // namespace

std::vector<Op> bit_ops() {
  return {
      // c = the bits that are set in both a and b. A bool is one bit.
      binary({.name = "BitwiseAnd",
              .no_gradient = "its values are integers",
              .kernels = with_i8(
                  binary_kernels<Each<std::bit_and<>{}>, int32_t, int64_t, uint8_t, bool>())}),
      // c = the bits that are set in a or b. A bool is one bit.
      binary({.name = "BitwiseOr",
              .no_gradient = "its values are integers",
              .kernels = with_i8(
                  binary_kernels<Each<std::bit_or<>{}>, int32_t, int64_t, uint8_t, bool>())}),
      // c = the bits in which a and b differ. A bool is one bit.
      binary({.name = "BitwiseXor",
              .no_gradient = "its values are integers",
              .kernels = with_i8(
                  binary_kernels<Each<std::bit_xor<>{}>, int32_t, int64_t, uint8_t, bool>())}),
      // y = x with all its bits turned over: -x - 1 for signed integers. LogicalNot is the one for
      // bool.
      unary(
          {.name = "Invert",
           .no_gradient = "integers have no slope",
           .kernels = with_i8(unary_kernels<Each<std::bit_not<>{}>, int32_t, int64_t, uint8_t>())}),
      // c = a * 2^b. Bits that leave at the top are lost, and all of them are for a b that is no
      // less
      // than the number of bits (in C++ that is undefined). A negative b is refused.
      binary({.name = "LeftShift",
              .no_gradient = "its values are integers",
              .kernels = binary_kernels<LeftShift, int32_t, int64_t, uint8_t>()}),
      // c = a / 2^b rounded down: the sign fills up from the top. A b that is no less than the
      // number
      // of bits leaves only the sign, 0 or -1. A negative b is refused.
      binary({.name = "RightShift",
              .no_gradient = "its values are integers",
              .kernels = binary_kernels<RightShift, int32_t, int64_t, uint8_t>()}),
  };
}

Output bitwise_and(Operand a, Operand b, Origin at) { return node_of("BitwiseAnd", a, b, at); }
Output bitwise_or(Operand a, Operand b, Origin at) { return node_of("BitwiseOr", a, b, at); }
Output bitwise_xor(Operand a, Operand b, Origin at) { return node_of("BitwiseXor", a, b, at); }
Output bitwise_not(Output x, Origin at) { return node_of("Invert", {x}, at); }
Output left_shift(Operand a, Operand b, Origin at) { return node_of("LeftShift", a, b, at); }
Output right_shift(Operand a, Operand b, Origin at) { return node_of("RightShift", a, b, at); }

}  // namespace troupe
