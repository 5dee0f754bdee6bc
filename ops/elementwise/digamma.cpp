// Digamma: y = the derivative of log(gamma(x)), element-wise. As in SciPy and PyTorch: NaN at
// negative integers and -infinity; at 0, infinity with the sign that 0 does not have.
//
// Abramowitz and Stegun, Handbook of Mathematical Functions: 6.3.7 mirrors x < 0, 6.3.5 moves what
// is below 10 up by 10, and there 6.3.18, a series in 1 / x^2, has all digits of f64. The error is
// within some 1e-15 of the larger of y and 1. No branches, so that loops are vectorised; f32 is
// computed in f64, as its own sums would be wrong in the last three bits.
#include <cmath>
#include <limits>
#include <numbers>

#include "ops/support/elementwise.hpp"
#include "ops/support/vector_math.hpp"

namespace troupe {
namespace {

// Writing dy for dL/dy:  dx = dy * trigamma(x).
std::vector<Output> gradient(const GradientContext& ctx) {
  const Output x = ctx.input(0), dy = ctx.output_gradient(0);
  return {dy * trigamma(x)};
}

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

struct Digamma {
  static constexpr bool kWhole = true;
  template <class T>
  static T apply(T x) {
    return static_cast<T>(digamma(static_cast<double>(x)));
  }
};

}  // namespace

Op digamma_op() {
  return {.name = "Digamma",
          .inputs = {"x"},
          .outputs = {"y"},
          .infer_shapes = infer_same_shape,
          .gradient = gradient,
          .kernels = unary_kernels<Digamma, float, double>(),
          .in_place = true,
          .precision = Precision::wide};
}

Output digamma(Output x, Origin at) { return add_node({.op = "Digamma", .inputs = {x}}, at); }

}  // namespace troupe
