// Elu: y = x where x > 0, else alpha * (e^x - 1), element-wise (Clevert et al. 2016, equation 7).
#include "ops/support/elementwise.hpp"
#include "ops/support/vector_math.hpp"

namespace troupe {
namespace {

// Writing dy for dL/dy:  dx = dy where x > 0, else dy * (y + alpha), which is dy * alpha * e^x.
std::vector<Output> gradient(const GradientContext& ctx) {
  const Output x = ctx.input(0), y = ctx.output(0), dy = ctx.output_gradient(0);
  const Output slope = y + ctx.attr<double>("alpha");
  return {where(greater(x, constant_like(0, x)), dy, dy * slope)};
}

struct Elu {
  static constexpr bool kWhole = true;
  template <class T>
  static T apply(T x, T alpha) {
    const T negative = alpha * math::expm1(x > T{0} ? T{0} : x);
    return x > T{0} ? x : negative;
  }
};

}  // namespace

Op elu_op() {
  return {.name = "Elu",
          .inputs = {"x"},
          .outputs = {"y"},
          .attrs = {{"alpha", AttrKind::real, 1.0}},
          .infer_shapes = infer_alpha,
          .gradient = gradient,
          .kernels = alpha_kernels<Elu, float, double>(),
          .in_place = true};
}

Output elu(Output x, double alpha, Origin at) {
  return add_node({.op = "Elu", .inputs = {x}, .attrs = {{"alpha", alpha}}}, at);
}

}  // namespace troupe
