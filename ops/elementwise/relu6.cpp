// Relu6: y = min(max(x, 0), 6), element-wise; NaN stays NaN.
#include "ops/support/elementwise.hpp"
#include "ops/support/narrow.hpp"

namespace troupe {
namespace {

// Writing dy for dL/dy:  dx = dy where 0 < y < 6, else 0 (at 0 and at 6 as well).
std::vector<Output> gradient(const GradientContext& ctx) {
  const Output y = ctx.output(0), dy = ctx.output_gradient(0);
  const Output zero = constant_like(0, y), six = constant_like(6, y);
  return {where(greater(y, zero), where(greater(six, y), dy, zero), zero)};
}

struct Relu6 {
  template <class T>
  static T apply(T x) {
    const T at_most = x > T{6} ? T{6} : x;
    return at_most < T{0} ? T{0} : at_most;
  }
};

}  // namespace

Op relu6_op() {
  return {.name = "Relu6",
          .inputs = {"x"},
          .outputs = {"y"},
          .infer_shapes = infer_same_shape,
          .gradient = gradient,
          .kernels = with_i8(unary_kernels<Relu6, float, double, int32_t, int64_t>()),
          .in_place = true};
}

Output relu6(Output x, Origin at) { return add_node({.op = "Relu6", .inputs = {x}}, at); }

}  // namespace troupe
