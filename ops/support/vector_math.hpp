// The functions of libm for loops over elements. In vectorised loops g++ calls glibc's libmvec:
// results are within 4 units in the last place, and the vector result of an element differs from
// its scalar result in the last bit. Use them only in loops over whole blocks: a function with
// `kWhole` (ops/support/elementwise.hpp).
#pragma once

#include <cmath>

namespace troupe::math {

#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__)
#define TROUPE_SIMD __attribute__((simd("notinbranch")))
#else
#define TROUPE_SIMD
#endif

}  // namespace troupe::math

// glibc declares these vectorisable only for -ffast-math, which would change every other result,
// too.
extern "C" {
#define TROUPE_MATH(f, ff)               \
  TROUPE_SIMD double f(double) noexcept; \
  TROUPE_SIMD float ff(float) noexcept;
#define TROUPE_MATH2(f, ff)                      \
  TROUPE_SIMD double f(double, double) noexcept; \
  TROUPE_SIMD float ff(float, float) noexcept;
#define TROUPE_ALL_MATH       \
  TROUPE_MATH(exp, expf)      \
  TROUPE_MATH(expm1, expm1f)  \
  TROUPE_MATH(log, logf)      \
  TROUPE_MATH(log1p, log1pf)  \
  TROUPE_MATH(log2, log2f)    \
  TROUPE_MATH(log10, log10f)  \
  TROUPE_MATH(exp2, exp2f)    \
  TROUPE_MATH(cbrt, cbrtf)    \
  TROUPE_MATH(sin, sinf)      \
  TROUPE_MATH(cos, cosf)      \
  TROUPE_MATH(tan, tanf)      \
  TROUPE_MATH(asin, asinf)    \
  TROUPE_MATH(acos, acosf)    \
  TROUPE_MATH(atan, atanf)    \
  TROUPE_MATH(sinh, sinhf)    \
  TROUPE_MATH(cosh, coshf)    \
  TROUPE_MATH(tanh, tanhf)    \
  TROUPE_MATH(asinh, asinhf)  \
  TROUPE_MATH(acosh, acoshf)  \
  TROUPE_MATH(atanh, atanhf)  \
  TROUPE_MATH(erf, erff)      \
  TROUPE_MATH(erfc, erfcf)    \
  TROUPE_MATH2(pow, powf)     \
  TROUPE_MATH2(atan2, atan2f) \
  TROUPE_MATH2(hypot, hypotf)
TROUPE_ALL_MATH
}

namespace troupe::math {

#undef TROUPE_MATH
#undef TROUPE_MATH2
#define TROUPE_MATH(f, ff)                     \
  inline double f(double x) { return ::f(x); } \
  inline float f(float x) { return ::ff(x); }
#define TROUPE_MATH2(f, ff)                                 \
  inline double f(double x, double y) { return ::f(x, y); } \
  inline float f(float x, float y) { return ::ff(x, y); }
TROUPE_ALL_MATH
#undef TROUPE_MATH
#undef TROUPE_MATH2
#undef TROUPE_ALL_MATH
#undef TROUPE_SIMD

}  // namespace troupe::math
