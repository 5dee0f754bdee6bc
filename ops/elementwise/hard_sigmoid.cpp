// HardSigmoid: y = min(max((x + 3) / 6, 0), 1), element-wise, as in PyTorch and Keras 3 (Howard et
// al. 2019, section 5.2); NaN stays NaN.
#include "ops/support/elementwise.hpp"

namespace troupe {
namespace {

// Writing dy for dL/dy:  dx = dy / 6 where 0 < y < 1, else 0 (at -3 and 3 as well).
std::vector<Output> gradient(const GradientContext& ctx) {
  const Output y = ctx.output(0), dy = ctx.output_gradient(0);
  const Output zero = constant_like(0, y), one = constant_like(1, y);
  return {where(greater(y, zero), where(greater(one, y), dy / 6, zero), zero)};
}

struct HardSigmoid {
  template <class T>
  static T apply(T x) {
    const T line = (x + 3) / 6, at_most = line > T{1} ? T{1} : line;
    return at_most < T{0} ? T{0} : at_most;
  }
};

}  // namespace

Op hard_sigmoid_op() {
  return {.name = "HardSigmoid",
          .inputs = {"x"},
          .outputs = {"y"},
          .infer_shapes = infer_same_shape,
          .gradient = gradient,
          .kernels = unary_kernels<HardSigmoid, float, double>(),
          .in_place = true};
}

Output hard_sigmoid(Output x, Origin at) {
  return add_node({.op = "HardSigmoid", .inputs = {x}}, at);
}

}  // namespace troupe
