// Reciprocal: y = 1 / x, element-wise; infinity with the sign of x at 0.
#include "ops/support/elementwise.hpp"

namespace troupe {
namespace {

// Writing dy for dL/dy:  dx = -dy * y^2.
std::vector<Output> gradient(const GradientContext& ctx) {
  const Output y = ctx.output(0), dy = ctx.output_gradient(0);
  return {-(dy * y * y)};
}

struct Reciprocal {
  template <class T>
  static T apply(T x) {
    return 1 / x;
  }
};

}  // namespace

Op reciprocal_op() {
  return {.name = "Reciprocal",
          .inputs = {"x"},
          .outputs = {"y"},
          .infer_shapes = infer_same_shape,
          .gradient = gradient,
          .kernels = unary_kernels<Reciprocal, float, double>(),
          .in_place = true,
          .precision = Precision::wide};
}

Output reciprocal(Output x, Origin at) { return add_node({.op = "Reciprocal", .inputs = {x}}, at); }

}  // namespace troupe
