// Error functions, and the logarithm of the gamma function with its derivatives.
#include <math.h>

#include <cmath>
#include <limits>
#include <numbers>

#include "ops/elementwise/rows.hpp"
#include "ops/support/vector_math.hpp"

namespace troupe {
namespace {

// Wichura, Algorithm AS 241: the percentage points of the normal distribution, Applied Statistics
// 37 (1988), routine PPND16: three quotients of polynomials, for x around 0, for its tails, and
// for the ends of them. Relative error below 1e-15. All three are computed and one is chosen,
// so that loops are vectorised; f32 is computed in f64.
//
// The coefficients rise with the power of x.
using Coefficients = double[8];
constexpr Coefficients kCentre = {3.3871328727963666080e0,  1.3314166789178437745e+2,
                                  1.9715909503065514427e+3, 1.3731693765509461125e+4,
                                  4.5921953931549871457e+4, 6.7265770927008700853e+4,
                                  3.3430575583588128105e+4, 2.5090809287301226727e+3};
constexpr Coefficients kCentreBelow = {1,
                                       4.2313330701600911252e+1,
                                       6.8718700749205790830e+2,
                                       5.3941960214247511077e+3,
                                       2.1213794301586595867e+4,
                                       3.9307895800092710610e+4,
                                       2.8729085735721942674e+4,
                                       5.2264952788528545610e+3};
constexpr Coefficients kTail = {1.42343711074968357734e0,  4.63033784615654529590e0,
                                5.76949722146069140550e0,  3.64784832476320460504e0,
                                1.27045825245236838258e0,  2.41780725177450611770e-1,
                                2.27238449892691845833e-2, 7.74545014278341407640e-4};
constexpr Coefficients kTailBelow = {1,
                                     2.05319162663775882187e0,
                                     1.67638483018380384940e0,
                                     6.89767334985100004550e-1,
                                     1.48103976427480074590e-1,
                                     1.51986665636164571966e-2,
                                     5.47593808499534494600e-4,
                                     1.05075007164441684324e-9};
constexpr Coefficients kEnd = {6.65790464350110377720e0,  5.46378491116411436990e0,
                               1.78482653991729133580e0,  2.96560571828504891230e-1,
                               2.65321895265761230930e-2, 1.24266094738807843860e-3,
                               2.71155556874348757815e-5, 2.01033439929228813265e-7};
constexpr Coefficients kEndBelow = {1,
                                    5.99832206555887937690e-1,
                                    1.36929880922735805310e-1,
                                    1.48753612908506148525e-2,
                                    7.86869131145613259100e-4,
                                    1.84631831751005468180e-5,
                                    1.42151175831644588870e-7,
                                    2.04426310338993978564e-15};

double quotient(const Coefficients& above, const Coefficients& below, double x) {
  double a = above[7], b = below[7];
  for (int i = 6; i >= 0; --i) {
    a = a * x + above[i];
    b = b * x + below[i];
  }
  return a / b;
}

// The normal quantile of (1 + x) / 2, over sqrt(2).
double erfinv(double x) {
  constexpr double kCentreMax = 0.85, kTailMax = 5;  // of |x|, and of r
  const double size = std::abs(x), q = x / 2;
  const double centre = q * quotient(kCentre, kCentreBelow, 0.180625 - q * q);
  const double r = std::sqrt(-math::log((1 - size) / 2));
  const double tail = r <= kTailMax ? quotient(kTail, kTailBelow, r - 1.6)
                                    : quotient(kEnd, kEndBelow, r - kTailMax);
  const double outer = std::copysign(size == 1 ? std::numeric_limits<double>::infinity() : tail, x);
  return (size <= kCentreMax ? centre : outer) * (std::numbers::sqrt2 / 2);
}

// The functions that end in _r write no global variable, as std::lgamma does. There is no vector
// function, and the care of the C library close to the negative integers is not worth doing again.
struct Lgamma {
  static float apply(float x) {
    int sign;
    return ::lgammaf_r(x, &sign);
  }
  static double apply(double x) {
    int sign;
    return ::lgamma_r(x, &sign);
  }
};

// Abramowitz and Stegun, Handbook of Mathematical Functions: 6.3.7 mirrors x < 0, 6.3.5 moves what
// is below 10 up by 10, and there 6.3.18, a series in 1 / x^2, has all digits of f64. The error is
// within some 1e-15 of the larger of y and 1. No branches, so that loops are vectorised; f32 is
// computed in f64, as its own sums would be wrong in the last three bits.
constexpr int kMoved = 10;

double digamma(double x) {
  const bool mirrored = x < 0;
  const double from = mirrored ? 1 - x : x;
  double moved = 0;
  for (int k = kMoved - 1; k > 0; --k) moved += 1 / (from + k);
  moved += 1 / from;  // from + 0 would lose the sign of zero
  const bool small = from < kMoved;
  const double z = small ? from + kMoved : from, r = 1 / (z * z);
  const double series =
      r * (1. / 12 +
           r * (-1. / 120 +
                r * (1. / 252 + r * (-1. / 240 + r * (1. / 132 + r * (-691. / 32760 + r / 12))))));
  const double y = math::log(z) - 0.5 / z - series - (small ? moved : 0);
  // pi / tan(pi * x) of the distance to the next integer, which is exact.
  const double distance = mirrored ? x - std::rint(x) : 0.25;
  const double tangent = math::tan(std::numbers::pi * distance);
  const double pole =
      distance == 0 ? std::numeric_limits<double>::quiet_NaN() : std::numbers::pi / tangent;
  return mirrored ? y - pole : y;
}

// The same with 6.4.7, 6.4.6 and 6.4.12, a series in 1 / x.
double trigamma(double x) {
  const bool mirrored = x < 0;
  const double from = mirrored ? 1 - x : x;
  double moved = 0;
  for (int k = kMoved - 1; k >= 0; --k) moved += 1 / ((from + k) * (from + k));
  const bool small = from < kMoved;
  const double z = small ? from + kMoved : from, r = 1 / (z * z);
  const double series =
      r * (1. / 6 +
           r * (-1. / 30 +
                r * (1. / 42 + r * (-1. / 30 + r * (5. / 66 + r * (-691. / 2730 + r * 7. / 6))))));
  const double y = (1 + 0.5 / z + series) / z + (small ? moved : 0);
  // (pi / sin(pi * x))^2 of the distance to the next integer, which is exact.
  const double distance = mirrored ? x - std::rint(x) : 0.25;
  const double pole = std::numbers::pi / math::sin(std::numbers::pi * distance);
  return mirrored ? pole * pole - y : y;
}

// f in f64, also of f32.
template <double (*f)(double)>
std::vector<Kernel> f64_kernels() {
  return math_kernels<[]<class T>(T x) { return static_cast<T>(f(static_cast<double>(x))); }>();
}

}  // namespace

std::vector<Op> special_function_ops() {
  return {
      // y = 2 / sqrt(pi) * (the integral of e^(-t^2) from 0 to x)
      unary({.name = "Erf",
             .gradient = dx<[](Output x, Output, Output dy) {
               return dy * exp(-square(x)) * (2 * std::numbers::inv_sqrtpi);
             }>,
             .kernels = math_kernels<[](auto x) { return math::erf(x); }>()}),
      // y = 1 - erf(x), exact where erf(x) is close to 1
      unary({.name = "Erfc",
             .gradient = dx<[](Output x, Output, Output dy) {
               return dy * exp(-square(x)) * (-2 * std::numbers::inv_sqrtpi);
             }>,
             .kernels = math_kernels<[](auto x) { return math::erfc(x); }>()}),
      // y = the number whose erf is x; infinities at -1 and 1, NaN beyond. The slope is
      // sqrt(pi) / 2 * e^(y^2).
      unary({.name = "Erfinv",
             .gradient = dx<[](Output, Output y, Output dy) {
               return dy * exp(square(y)) * (0.5 / std::numbers::inv_sqrtpi);
             }>,
             .kernels = f64_kernels<erfinv>(),
             .precision = Precision::wide}),
      // y = log(|gamma(x)|); infinity at 0, at negative integers and at infinities
      unary({.name = "Lgamma",
             .gradient = dx<[](Output x, Output, Output dy) { return dy * digamma(x); }>,
             .kernels = unary_kernels<Lgamma, float, double>(),
             .precision = Precision::wide}),
      // y = the derivative of log(gamma(x)). As in SciPy and PyTorch: NaN at negative integers and
      // -infinity; at 0, infinity with the sign that 0 does not have.
      unary({.name = "Digamma",
             .gradient = dx<[](Output x, Output, Output dy) { return dy * trigamma(x); }>,
             .kernels = f64_kernels<digamma>(),
             .precision = Precision::wide}),
      // y = the derivative of digamma(x); infinity at 0 and negative integers, NaN at -infinity
      unary({.name = "Trigamma",
             .no_gradient = "there is no op for the third derivative of lgamma",
             .kernels = f64_kernels<trigamma>(),
             .precision = Precision::wide}),
  };
}

Output erf(Output x, Origin at) { return node_of("Erf", {x}, at); }
Output erfc(Output x, Origin at) { return node_of("Erfc", {x}, at); }
Output erfinv(Output x, Origin at) { return node_of("Erfinv", {x}, at); }
Output lgamma(Output x, Origin at) { return node_of("Lgamma", {x}, at); }
Output digamma(Output x, Origin at) { return node_of("Digamma", {x}, at); }
Output trigamma(Output x, Origin at) { return node_of("Trigamma", {x}, at); }

}  // namespace troupe
