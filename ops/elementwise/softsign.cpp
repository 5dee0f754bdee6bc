// Softsign: y = x / (1 + |x|), element-wise; -1 and 1 at the infinities.
#include <cmath>
#include <limits>

#include "ops/support/elementwise.hpp"

namespace troupe {
namespace {

// Writing dy for dL/dy:  dx = dy / (1 + |x|)^2.
std::vector<Output> gradient(const GradientContext& ctx) {
  const Output x = ctx.input(0), dy = ctx.output_gradient(0);
  return {dy / square(1 + abs(x))};
}

struct Softsign {
  template <class T>
  static T apply(T x) {
    const T a = std::abs(x), finite = x / (1 + a);
    return a == std::numeric_limits<T>::infinity() ? std::copysign(T{1}, x) : finite;
  }
};

}  // namespace

Op softsign_op() {
  return {.name = "Softsign",
          .inputs = {"x"},
          .outputs = {"y"},
          .infer_shapes = infer_same_shape,
          .gradient = gradient,
          .kernels = unary_kernels<Softsign, float, double>(),
          .in_place = true};
}

Output softsign(Output x, Origin at) { return add_node({.op = "Softsign", .inputs = {x}}, at); }

}  // namespace troupe
