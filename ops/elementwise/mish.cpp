// Mish: y = x * tanh(softplus(x)), element-wise (Misra 2020); 0 at -infinity.
//
// As tanh(log(u)) = (u^2 - 1) / (u^2 + 1), one exponential is enough. With e = e^-|x|, which never
// overflows, and u = 1 + e^x, that is a / (a + b):
//   x > 0: a = 1 + 2e, b = 2e^2;  else: a = 2e + e^2, b = 2.
#include <cmath>

#include "ops/support/elementwise.hpp"
#include "ops/support/vector_math.hpp"

namespace troupe {
namespace {

// With t = tanh(softplus(x)), and dy for dL/dy:  dx = dy * (t + x * sigmoid(x) * (1 - t^2)).
std::vector<Output> gradient(const GradientContext& ctx) {
  const Output x = ctx.input(0), dy = ctx.output_gradient(0);
  const Output t = tanh(softplus(x));
  return {dy * (t + silu(x) * (1 - square(t)))};
}

struct Mish {
  static constexpr bool kWhole = true;
  template <class T>
  static T apply(T x) {
    const T e = math::exp(-std::abs(x));
    const bool positive = x > T{0};
    const T a = positive ? 1 + 2 * e : e * (2 + e), b = positive ? 2 * e * e : T{2};
    const T t = a / (a + b);
    return t == T{0} ? T{0} : x * t;
  }
};

}  // namespace

Op mish_op() {
  return {.name = "Mish",
          .inputs = {"x"},
          .outputs = {"y"},
          .infer_shapes = infer_same_shape,
          .gradient = gradient,
          .kernels = unary_kernels<Mish, float, double>(),
          .in_place = true};
}

Output mish(Output x, Origin at) { return add_node({.op = "Mish", .inputs = {x}}, at); }

}  // namespace troupe
