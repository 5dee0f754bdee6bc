// LeakyRelu: y = x where x > 0, else alpha * x, element-wise. The slope alpha is any finite number.
#include "ops/support/elementwise.hpp"

namespace troupe {
namespace {

// Writing dy for dL/dy:  dx = dy where x > 0, else alpha * dy (at 0 as well).
std::vector<Output> gradient(const GradientContext& ctx) {
  const Output x = ctx.input(0), dy = ctx.output_gradient(0);
  return {where(greater(x, constant_like(0, x)), dy, dy * ctx.attr<double>("alpha"))};
}

struct LeakyRelu {
  template <class T>
  static T apply(T x, T alpha) {
    const T scaled = alpha * x;
    return x > T{0} ? x : scaled;
  }
};

}  // namespace

Op leaky_relu_op() {
  return {.name = "LeakyRelu",
          .inputs = {"x"},
          .outputs = {"y"},
          .attrs = {{"alpha", AttrKind::real, 0.2}},
          .infer_shapes = infer_alpha,
          .gradient = gradient,
          .kernels = alpha_kernels<LeakyRelu, float, double>(),
          .in_place = true};
}

Output leaky_relu(Output x, double alpha, Origin at) {
  return add_node({.op = "LeakyRelu", .inputs = {x}, .attrs = {{"alpha", alpha}}}, at);
}

}  // namespace troupe
