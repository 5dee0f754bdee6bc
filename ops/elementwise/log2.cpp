// Log2: y = the logarithm of x to base 2, element-wise; -infinity at 0, NaN below.
#include <numbers>

#include "ops/support/elementwise.hpp"
#include "ops/support/vector_math.hpp"

namespace troupe {
namespace {

// Writing dy for dL/dy:  dx = dy / (x * ln 2).
std::vector<Output> gradient(const GradientContext& ctx) {
  const Output x = ctx.input(0), dy = ctx.output_gradient(0);
  return {dy / (x * std::numbers::ln2)};
}

struct Log2 {
  static constexpr bool kWhole = true;
  template <class T>
  static T apply(T x) {
    return math::log2(x);
  }
};

}  // namespace

Op log2_op() {
  return {.name = "Log2",
          .inputs = {"x"},
          .outputs = {"y"},
          .infer_shapes = infer_same_shape,
          .gradient = gradient,
          .kernels = unary_kernels<Log2, float, double>(),
          .in_place = true,
          .precision = Precision::wide};
}

Output log2(Output x, Origin at) { return add_node({.op = "Log2", .inputs = {x}}, at); }

}  // namespace troupe
