// The conversions of troupe/tensor.hpp, against exact values.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "troupe/tensor.hpp"

namespace troupe {
namespace {

// The value of a 16-bit pattern by the definition of IEEE 754.
double by_definition(uint16_t bits, int fraction_bits, int bias) {
  const int exponent_bits = 15 - fraction_bits;
  const int exponent = bits >> fraction_bits & ((1 << exponent_bits) - 1);
  const double fraction = std::ldexp(bits & ((1 << fraction_bits) - 1), -fraction_bits);
  const double sign = bits >> 15 ? -1 : 1;
  if (exponent == (1 << exponent_bits) - 1) return fraction != 0 ? NAN : sign * INFINITY;
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias);
  return sign * std::ldexp(1 + fraction, exponent - bias);
}

template <class T>
struct Format;
template <>
struct Format<BFloat16> {
  static constexpr int fraction = 7, bias = 127;
};
template <>
struct Format<Float16> {
  static constexpr int fraction = 10, bias = 15;
};

template <class T>
void check_all_patterns() {
  int wrong = 0;
  for (uint32_t i = 0; i < 65536; ++i) {
    const auto bits = static_cast<uint16_t>(i);
    const T x = T::of_bits(bits);
    const float value = x;
    const double exact = by_definition(bits, Format<T>::fraction, Format<T>::bias);
    if (std::isnan(exact)) {
      // It stays a NaN of the same sign; a signalling NaN becomes quiet.
      const uint16_t quiet = static_cast<uint16_t>(bits | 1u << (Format<T>::fraction - 1));
      wrong += !std::isnan(value) || T(value).bits != quiet;
    } else {
      wrong += static_cast<double>(value) != exact || std::signbit(value) != std::signbit(exact);
      wrong += T(value).bits != bits || T(exact).bits != bits;
    }
  }
  CHECK(wrong == 0);
}

// For each two neighbours: just below the middle, the middle and just above it. From float and from
// double.
template <class T>
void check_all_ties() {
  int wrong = 0;
  const auto most = std::numeric_limits<T>::max().bits;
  for (uint16_t bits = 0; bits <= most; ++bits) {
    const double low = T::of_bits(bits);
    // Past the largest number, the middle is where it would be if there were a next number.
    const double high = bits == most ? 2 * low - T::of_bits(static_cast<uint16_t>(bits - 1))
                                     : double{T::of_bits(static_cast<uint16_t>(bits + 1))};
    const double middle = (low + high) / 2;
    const auto up = static_cast<uint16_t>(bits + 1);
    const uint16_t even = bits & 1 ? up : bits;
    for (const double sign : {1.0, -1.0}) {
      const uint16_t minus = sign < 0 ? 0x8000 : 0;
      wrong += T(sign * middle).bits != (even | minus);
      wrong += T(sign * std::nextafter(middle, 0)).bits != (bits | minus);
      wrong += T(sign * std::nextafter(middle, INFINITY)).bits != (up | minus);
      const auto tie = static_cast<float>(middle);
      if (static_cast<double>(tie) != middle) continue;  // a float cannot hold it
      wrong += T(static_cast<float>(sign) * tie).bits != (even | minus);
      wrong += T(static_cast<float>(sign) * std::nextafter(tie, 0.0f)).bits != (bits | minus);
      wrong += T(static_cast<float>(sign) * std::nextafter(tie, INFINITY)).bits != (up | minus);
    }
  }
  CHECK(wrong == 0);
}

}  // namespace

TEST_CASE("every 16-bit pattern is the float that IEEE 754 says, and comes back") {
  check_all_patterns<BFloat16>();
  check_all_patterns<Float16>();
}

TEST_CASE(
    "what is between two numbers goes to the nearer one, and to the even one from the middle") {
  check_all_ties<BFloat16>();
  check_all_ties<Float16>();
}

TEST_CASE("what is too large becomes infinite, what is too small zero, with its sign") {
  CHECK(float{Float16(65504.0f)} == 65504);
  CHECK(float{Float16(65519.996f)} == 65504);
  CHECK(float{Float16(65520.0f)} == INFINITY);
  CHECK(float{Float16(-1e300)} == -INFINITY);
  CHECK(float{BFloat16(3.4e38)} == INFINITY);
  CHECK(float{BFloat16(3.38e38)} < INFINITY);
  CHECK(float{BFloat16(1e300)} == INFINITY);
  CHECK(Float16(0x1p-25).bits == 0);
  CHECK(Float16(-0x1p-25).bits == 0x8000);
  CHECK(Float16(std::nextafter(0x1p-25, 1.0)).bits == 1);
  CHECK(BFloat16(1e-300).bits == 0);
  CHECK(BFloat16(-1e-300).bits == 0x8000);
  CHECK(BFloat16(std::nanf("")).bits == 0x7fc0);
  CHECK(std::isnan(float{Float16(std::nan(""))}));
}

TEST_CASE("the limits are those of the formats") {
  CHECK(float{std::numeric_limits<BFloat16>::max()} == 0x1.fep127f);
  CHECK(float{std::numeric_limits<BFloat16>::min()} == 0x1p-126f);
  CHECK(float{std::numeric_limits<BFloat16>::epsilon()} == 0x1p-7f);
  CHECK(float{std::numeric_limits<Float16>::max()} == 65504);
  CHECK(float{std::numeric_limits<Float16>::min()} == 0x1p-14f);
  CHECK(float{std::numeric_limits<Float16>::epsilon()} == 0x1p-10f);
  CHECK(float{std::numeric_limits<Float16>::denorm_min()} == 0x1p-24f);
}

}  // namespace troupe
