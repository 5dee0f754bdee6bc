// Erfinv: y = the number whose erf is x, element-wise; infinities at -1 and 1, NaN beyond.
//
// Wichura, Algorithm AS 241: the percentage points of the normal distribution, Applied Statistics
// 37 (1988), routine PPND16: three quotients of polynomials, for x around 0, for its tails, and
// for the ends of them. Relative error below 1e-15. All three are computed and one is chosen,
// so that loops are vectorised; f32 is computed in f64.
#include <cmath>
#include <limits>
#include <numbers>

#include "ops/support/elementwise.hpp"
#include "ops/support/vector_math.hpp"

namespace troupe {
namespace {

// Writing dy for dL/dy:  dx = dy * sqrt(pi) / 2 * e^(y^2).
std::vector<Output> gradient(const GradientContext& ctx) {
  const Output y = ctx.output(0), dy = ctx.output_gradient(0);
  return {dy * exp(square(y)) * (0.5 / std::numbers::inv_sqrtpi)};
}

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

struct Erfinv {
  static constexpr bool kWhole = true;
  template <class T>
  static T apply(T x) {
    return static_cast<T>(erfinv(static_cast<double>(x)));
  }
};

}  // namespace

Op erfinv_op() {
  return {.name = "Erfinv",
          .inputs = {"x"},
          .outputs = {"y"},
          .infer_shapes = infer_same_shape,
          .gradient = gradient,
          .kernels = unary_kernels<Erfinv, float, double>(),
          .in_place = true,
          .precision = Precision::wide};
}

Output erfinv(Output x, Origin at) { return add_node({.op = "Erfinv", .inputs = {x}}, at); }

}  // namespace troupe
