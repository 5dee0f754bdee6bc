// exp_of_negative: e^x for x <= 0 (but for rounding), for softmax, its losses and logarithms of
// sums. The f32 version is arithmetic alone, so that compilers vectorise any loop around it and an
// element's bits do not depend on its position. The f64 version is glibc's, as in
// ops/support/vector_math.hpp.
#pragma once

#include <bit>
#include <cstdint>

#include "ops/support/vector_math.hpp"

namespace troupe::math {

// Within 1.3 units in the last place for x <= 0, denormal results included; 0 from -104 on; NaN for
// NaN. Requires: x < 40, or NaN.
//
// x = n * ln 2 + r, with ln 2 in two parts (Cody and Waite, 1980), so that n times the first part
// is exact. The polynomial in r is the minimax one of degree 6 among those that begin with 1 + r;
// its error is 3e-9. Adding `kRound` rounds n to an integer, which then is in the low bits, 191 too
// large: shifted into the exponent, it gives 2^(n + 64), so that 2^n is never denormal before the
// last step.
inline float exp_of_negative(float x) {
  constexpr float kLog2e = 1.44269504f, kLn2High = 0.693359375f, kLn2Low = -2.12194440e-4f;
  constexpr float kRound = 0x1.8p23f + 191, kLeast = -104;
  const float z = x < kLeast ? kLeast : x;
  const float shifted = z * kLog2e + kRound, n = shifted - kRound;
  const float r = (z - n * kLn2High) - n * kLn2Low, r2 = r * r;
  const float low = 0.49999994f + 0.16666521f * r;
  const float high = (0.041668389f + 0.0083687454f * r) + 0.0013814540f * r2;
  const float power = (low + high * r2) * r2 + (r + 1);
  const float scale = std::bit_cast<float>(std::bit_cast<uint32_t>(shifted) << 23);
  return power * scale * 0x1p-64f;
}
inline double exp_of_negative(double x) { return exp(x); }

}  // namespace troupe::math
