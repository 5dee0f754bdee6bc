// Sinh: y = (e^x - e^-x) / 2, element-wise.
#include "ops/support/elementwise.hpp"
#include "ops/support/vector_math.hpp"

namespace troupe {
namespace {

// Writing dy for dL/dy:  dx = dy * cosh(x).
std::vector<Output> gradient(const GradientContext& ctx) {
  const Output x = ctx.input(0), dy = ctx.output_gradient(0);
  return {dy * cosh(x)};
}

struct Sinh {
  static constexpr bool kWhole = true;
  template <class T>
  static T apply(T x) {
    return math::sinh(x);
  }
};

}  // namespace

Op sinh_op() {
  return {.name = "Sinh",
          .inputs = {"x"},
          .outputs = {"y"},
          .infer_shapes = infer_same_shape,
          .gradient = gradient,
          .kernels = unary_kernels<Sinh, float, double>(),
          .in_place = true,
          .precision = Precision::wide};
}

Output sinh(Output x, Origin at) { return add_node({.op = "Sinh", .inputs = {x}}, at); }

}  // namespace troupe
