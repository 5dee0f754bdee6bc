// Lgamma: y = log(|gamma(x)|), element-wise; infinity at 0, at negative integers and at infinities.
// It is the C library's, one element at a time: there is no vector function, and its care close to
// the negative integers is not worth doing again.
#include <math.h>

#include "ops/support/elementwise.hpp"

namespace troupe {
namespace {

// Writing dy for dL/dy:  dx = dy * digamma(x).
std::vector<Output> gradient(const GradientContext& ctx) {
  const Output x = ctx.input(0), dy = ctx.output_gradient(0);
  return {dy * digamma(x)};
}

// The functions that end in _r write no global variable, as std::lgamma does.
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

}  // namespace

Op lgamma_op() {
  return {.name = "Lgamma",
          .inputs = {"x"},
          .outputs = {"y"},
          .infer_shapes = infer_same_shape,
          .gradient = gradient,
          .kernels = unary_kernels<Lgamma, float, double>(),
          .in_place = true,
          .precision = Precision::wide};
}

Output lgamma(Output x, Origin at) { return add_node({.op = "Lgamma", .inputs = {x}}, at); }

}  // namespace troupe
