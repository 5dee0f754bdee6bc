// Log10: y = the logarithm of x to base 10, element-wise; -infinity at 0, NaN below.
#include <numbers>

#include "ops/support/elementwise.hpp"
#include "ops/support/vector_math.hpp"

namespace troupe {
namespace {

// Writing dy for dL/dy:  dx = dy / (x * ln 10).
std::vector<Output> gradient(const GradientContext& ctx) {
  const Output x = ctx.input(0), dy = ctx.output_gradient(0);
  return {dy / (x * std::numbers::ln10)};
}

struct Log10 {
  static constexpr bool kWhole = true;
  template <class T>
  static T apply(T x) {
    return math::log10(x);
  }
};

}  // namespace

Op log10_op() {
  return {.name = "Log10",
          .inputs = {"x"},
          .outputs = {"y"},
          .infer_shapes = infer_same_shape,
          .gradient = gradient,
          .kernels = unary_kernels<Log10, float, double>(),
          .in_place = true,
          .precision = Precision::wide};
}

Output log10(Output x, Origin at) { return add_node({.op = "Log10", .inputs = {x}}, at); }

}  // namespace troupe
