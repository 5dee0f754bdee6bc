// Trigamma: y = the derivative of digamma(x), element-wise; infinity at 0 and negative integers,
// NaN at -infinity.
//
// Abramowitz and Stegun, Handbook of Mathematical Functions: 6.4.7 mirrors x < 0, 6.4.6 moves what
// is below 10 up by 10, and there 6.4.12, a series in 1 / x, has all digits of f64.
// ops/elementwise/digamma.cpp does the same.
#include <cmath>
#include <numbers>

#include "ops/support/elementwise.hpp"
#include "ops/support/vector_math.hpp"

namespace troupe {
namespace {

constexpr int kMoved = 10;

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

struct Trigamma {
  static constexpr bool kWhole = true;
  template <class T>
  static T apply(T x) {
    return static_cast<T>(trigamma(static_cast<double>(x)));
  }
};

}  // namespace

Op trigamma_op() {
  return {.name = "Trigamma",
          .inputs = {"x"},
          .outputs = {"y"},
          .infer_shapes = infer_same_shape,
          .no_gradient = "there is no op for the third derivative of lgamma",
          .kernels = unary_kernels<Trigamma, float, double>(),
          .in_place = true,
          .precision = Precision::wide};
}

Output trigamma(Output x, Origin at) { return add_node({.op = "Trigamma", .inputs = {x}}, at); }

}  // namespace troupe
