// Exp: y = e^x, element-wise.
#include "ops/support/elementwise.hpp"
#include "ops/support/vector_math.hpp"

namespace troupe {
namespace {

// Writing dy for dL/dy:  dx = dy * y.
std::vector<Output> gradient(const GradientContext& ctx) {
  return {multiply(ctx.output_gradient(0), ctx.output(0))};
}

struct Exp {
  static constexpr bool kWhole = true;
  template <class T>
  static T apply(T x) {
    return math::exp(x);
  }
};

}  // namespace

Op exp_op() {
  return {.name = "Exp",
          .inputs = {"x"},
          .outputs = {"y"},
          .infer_shapes = infer_same_shape,
          .gradient = gradient,
          .kernels = unary_kernels<Exp, float, double>(),
          .in_place = true,
          .precision = Precision::wide};
}

Output exp(Output x, Origin at) { return add_node({.op = "Exp", .inputs = {x}}, at); }

}  // namespace troupe
