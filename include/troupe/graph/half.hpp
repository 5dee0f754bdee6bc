// The two 16-bit floating-point numbers that tensors hold: BFloat16 (8 bits of exponent, 8 of
// precision: the upper half of a float) and Float16 (IEEE 754 binary16: 5 bits of exponent, 11 of
// precision, at most 65504).
//
// They are for storage, not arithmetic: each is a float as soon as it is an operand, and becomes 16
// bits again by an explicit conversion, which rounds once, to nearest, ties to even. A number that
// is too large becomes an infinity, a small one a subnormal number or zero; a NaN stays a quiet NaN
// with its sign and the upper bits of its payload. No processor flag changes that.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace troupe {

namespace detail {

// A float from which both 16-bit formats round as they would from the double itself: rounded to odd
// (Boldo and Melquiond, "Emulation of FMA and correctly rounded sums", 2008).
constexpr float to_odd_float(double number) {
  constexpr double kMax = std::numeric_limits<float>::max();
  if (number != number)
    return std::bit_cast<uint64_t>(number) >> 63 ? -__builtin_nanf("") : __builtin_nanf("");
  if (number > kMax || number < -kMax) {
    const float most = number - number != 0 ? std::numeric_limits<float>::infinity()
                                            : std::numeric_limits<float>::max();
    return number < 0 ? -most : most;
  }
  const auto nearest = static_cast<float>(number);
  const auto bits = std::bit_cast<uint32_t>(nearest);
  const double back = nearest;
  if (back == number || bits & 1) return nearest;
  // Inexact and even: the neighbour on the other side of the number is odd.
  if (nearest == 0)
    return number < 0 ? -std::numeric_limits<float>::denorm_min()
                      : std::numeric_limits<float>::denorm_min();
  const bool beyond = (number < 0) ? back < number : back > number;
  return std::bit_cast<float>(beyond ? bits - 1 : bits + 1);
}

// The same for other types: an integer past 2^53 keeps a sticky bit for the digits a double would
// drop.
template <class T>
constexpr float to_odd_float(T number) {
  if constexpr (std::is_same_v<T, float>) {
    return number;
  } else if constexpr (std::is_integral_v<T> && sizeof(T) == 8) {
    const T low = static_cast<T>(number & 0x7ff);
    const bool large = number > (int64_t{1} << 53) ||
                       (std::is_signed_v<T> && number < static_cast<T>(-(int64_t{1} << 53)));
    return to_odd_float(static_cast<double>(large && low ? (number - low) | 0x800 : number));
  } else {
    return to_odd_float(static_cast<double>(number));
  }
}

constexpr uint16_t bfloat16_bits(float number) {
  const auto bits = std::bit_cast<uint32_t>(number);
  const uint32_t rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
  return static_cast<uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? bits >> 16 | 0x40u : rounded);
}

constexpr float bfloat16_value(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

// Computes every case and selects one, so that the compiler can vectorise loops of it.
constexpr uint16_t float16_bits(float number) {
  const auto all = std::bit_cast<uint32_t>(number);
  const uint32_t bits = all & 0x7fffffffu, sign = all >> 16 & 0x8000u;
  // From 2^-14 on: another bias, and the carry of rounding may reach infinity.
  const uint32_t normal = (bits - 0x38000000u + 0xfffu + (bits >> 13 & 1u)) >> 13;
  // Below it 0.5 + |x| has its last bit at 2^-24, as subnormal numbers have.
  const float small = std::bit_cast<float>(bits < 0x38800000u ? bits : 0u) + 0.5f;
  const uint32_t subnormal = std::bit_cast<uint32_t>(small) - 0x3f000000u;
  const uint32_t special = bits > 0x7f800000u ? 0x7e00u | (bits >> 13 & 0x3ffu) : 0x7c00u;
  const uint32_t finite = bits < 0x38800000u ? subnormal : normal;
  return static_cast<uint16_t>(sign | (bits >= 0x47800000u ? special : finite));
}

constexpr float float16_value(uint16_t half) {
  const uint32_t bits = (half & 0x7fffu) << 13, sign = (half & 0x8000u) << 16;
  // Exact, for subnormal numbers, too: 2^112 is the difference of the biases.
  const uint32_t finite = std::bit_cast<uint32_t>(std::bit_cast<float>(bits) * 0x1p112f);
  return std::bit_cast<float>(sign | (bits >= 0xf800000u ? bits | 0x7f800000u : finite));
}

}  // namespace detail

struct BFloat16 {
  uint16_t bits;

  BFloat16() = default;
  template <class T>
  requires std::is_arithmetic_v<T>
  constexpr explicit BFloat16(T number)
      : bits(detail::bfloat16_bits(detail::to_odd_float(number))) {}
  constexpr operator float() const { return detail::bfloat16_value(bits); }
  static constexpr BFloat16 of_bits(uint16_t bits) { return std::bit_cast<BFloat16>(bits); }
};

struct Float16 {
  uint16_t bits;

  Float16() = default;
  template <class T>
  requires std::is_arithmetic_v<T>
  constexpr explicit Float16(T number) : bits(detail::float16_bits(detail::to_odd_float(number))) {}
  constexpr operator float() const { return detail::float16_value(bits); }
  static constexpr Float16 of_bits(uint16_t bits) { return std::bit_cast<Float16>(bits); }
};

static_assert(sizeof(BFloat16) == 2 && std::is_trivial_v<BFloat16>);
static_assert(sizeof(Float16) == 2 && std::is_trivial_v<Float16>);

// The types that are stored in 16 bits and computed as float.
template <class T>
inline constexpr bool is_half_v = std::is_same_v<T, BFloat16> || std::is_same_v<T, Float16>;
// float, double and the 16-bit types.
template <class T>
inline constexpr bool is_real_v = std::is_floating_point_v<T> || is_half_v<T>;

}  // namespace troupe

// Limits of these types as numbers; they are not arithmetic types, so only constants that
// computations use are defined.
template <>
struct std::numeric_limits<troupe::BFloat16> {
  using T = troupe::BFloat16;
  static constexpr bool is_specialized = true, is_signed = true, is_integer = false;
  static constexpr bool has_infinity = true, has_quiet_NaN = true;
  static constexpr int digits = 8, radix = 2, min_exponent = -125, max_exponent = 128;
  static constexpr T min() { return T::of_bits(0x0080); }
  static constexpr T max() { return T::of_bits(0x7f7f); }
  static constexpr T lowest() { return T::of_bits(0xff7f); }
  static constexpr T epsilon() { return T::of_bits(0x3c00); }
  static constexpr T denorm_min() { return T::of_bits(0x0001); }
  static constexpr T infinity() { return T::of_bits(0x7f80); }
  static constexpr T quiet_NaN() { return T::of_bits(0x7fc0); }
};
template <>
struct std::numeric_limits<troupe::Float16> {
  using T = troupe::Float16;
  static constexpr bool is_specialized = true, is_signed = true, is_integer = false;
  static constexpr bool has_infinity = true, has_quiet_NaN = true;
  static constexpr int digits = 11, radix = 2, min_exponent = -13, max_exponent = 16;
  static constexpr T min() { return T::of_bits(0x0400); }
  static constexpr T max() { return T::of_bits(0x7bff); }
  static constexpr T lowest() { return T::of_bits(0xfbff); }
  static constexpr T epsilon() { return T::of_bits(0x1400); }
  static constexpr T denorm_min() { return T::of_bits(0x0001); }
  static constexpr T infinity() { return T::of_bits(0x7c00); }
  static constexpr T quiet_NaN() { return T::of_bits(0x7e00); }
};
