// Asinh: y = the number whose sinh is x, log(x + sqrt(x^2 + 1)), element-wise.
#include "ops/support/elementwise.hpp"
#include "ops/support/vector_math.hpp"

namespace troupe {
namespace {

// Writing dy for dL/dy:  dx = dy / cosh(y), which is sqrt(x^2 + 1) without a square that overflows.
std::vector<Output> gradient(const GradientContext& ctx) {
  const Output y = ctx.output(0), dy = ctx.output_gradient(0);
  return {dy / cosh(y)};
}

struct Asinh {
  static constexpr bool kWhole = true;
  template <class T>
  static T apply(T x) {
    return math::asinh(x);
  }
};

}  // namespace

Op asinh_op() {
  return {.name = "Asinh",
          .inputs = {"x"},
          .outputs = {"y"},
          .infer_shapes = infer_same_shape,
          .gradient = gradient,
          .kernels = unary_kernels<Asinh, float, double>(),
          .in_place = true};
}

Output asinh(Output x, Origin at) { return add_node({.op = "Asinh", .inputs = {x}}, at); }

}  // namespace troupe
