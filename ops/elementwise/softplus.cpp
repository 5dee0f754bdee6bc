// Softplus: y = log(1 + e^x), element-wise, as max(x, 0) + log1p(e^-|x|): nothing overflows.
#include <cmath>

#include "ops/support/elementwise.hpp"
#include "ops/support/vector_math.hpp"

namespace troupe {
namespace {

// Writing dy for dL/dy:  dx = dy * sigmoid(x).
std::vector<Output> gradient(const GradientContext& ctx) {
  const Output x = ctx.input(0), dy = ctx.output_gradient(0);
  return {dy * sigmoid(x)};
}

struct Softplus {
  static constexpr bool kWhole = true;
  template <class T>
  static T apply(T x) {
    const T positive = x > T{0} ? x : T{0};
    return positive + math::log1p(math::exp(-std::abs(x)));  // NaN stays NaN
  }
};

}  // namespace

Op softplus_op() {
  return {.name = "Softplus",
          .inputs = {"x"},
          .outputs = {"y"},
          .infer_shapes = infer_same_shape,
          .gradient = gradient,
          .kernels = unary_kernels<Softplus, float, double>(),
          .in_place = true,
          .precision = Precision::wide};
}

Output softplus(Output x, Origin at) { return add_node({.op = "Softplus", .inputs = {x}}, at); }

}  // namespace troupe
