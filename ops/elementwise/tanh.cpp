// Tanh: y = tanh(x), element-wise.
#include "ops/support/elementwise.hpp"
#include "ops/support/vector_math.hpp"

namespace troupe {
namespace {

// Writing dy for dL/dy:  dx = dy * (1 - y^2).
std::vector<Output> gradient(const GradientContext& ctx) {
  const Output y = ctx.output(0), dy = ctx.output_gradient(0);
  return {multiply(dy, subtract(constant_like(1, y), square(y)))};
}

struct Tanh {
  static constexpr bool kWhole = true;
  template <class T>
  static T apply(T x) {
    return math::tanh(x);
  }
};

}  // namespace

Op tanh_op() {
  return {.name = "Tanh",
          .inputs = {"x"},
          .outputs = {"y"},
          .infer_shapes = infer_same_shape,
          .gradient = gradient,
          .kernels = unary_kernels<Tanh, float, double>(),
          .in_place = true};
}

Output tanh(Output x, Origin at) { return add_node({.op = "Tanh", .inputs = {x}}, at); }

}  // namespace troupe
