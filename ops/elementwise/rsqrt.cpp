// Rsqrt: y = 1 / sqrt(x), element-wise; infinity with the sign of x at 0, NaN below.
#include <cmath>

#include "ops/support/elementwise.hpp"

namespace troupe {
namespace {

// Writing dy for dL/dy:  dx = -dy * y / (2 * x).
std::vector<Output> gradient(const GradientContext& ctx) {
  const Output x = ctx.input(0), y = ctx.output(0), dy = ctx.output_gradient(0);
  return {dy * y / x * -0.5};
}

struct Rsqrt {
  template <class T>
  static T apply(T x) {
    return 1 / std::sqrt(x);
  }
};

}  // namespace

Op rsqrt_op() {
  return {.name = "Rsqrt",
          .inputs = {"x"},
          .outputs = {"y"},
          .infer_shapes = infer_same_shape,
          .gradient = gradient,
          .kernels = unary_kernels<Rsqrt, float, double>(),
          .in_place = true,
          .precision = Precision::wide};
}

Output rsqrt(Output x, Origin at) { return add_node({.op = "Rsqrt", .inputs = {x}}, at); }

}  // namespace troupe
