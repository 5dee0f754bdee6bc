// Exp2: y = 2^x, element-wise.
#include <numbers>

#include "ops/support/elementwise.hpp"
#include "ops/support/vector_math.hpp"

namespace troupe {
namespace {

// Writing dy for dL/dy:  dx = dy * y * ln 2.
std::vector<Output> gradient(const GradientContext& ctx) {
  const Output y = ctx.output(0), dy = ctx.output_gradient(0);
  return {dy * y * std::numbers::ln2};
}

struct Exp2 {
  static constexpr bool kWhole = true;
  template <class T>
  static T apply(T x) {
    return math::exp2(x);
  }
};

}  // namespace

Op exp2_op() {
  return {.name = "Exp2",
          .inputs = {"x"},
          .outputs = {"y"},
          .infer_shapes = infer_same_shape,
          .gradient = gradient,
          .kernels = unary_kernels<Exp2, float, double>(),
          .in_place = true,
          .precision = Precision::wide};
}

Output exp2(Output x, Origin at) { return add_node({.op = "Exp2", .inputs = {x}}, at); }

}  // namespace troupe
