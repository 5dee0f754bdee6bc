// Atanh: y = the number whose tanh is x, log((1 + x) / (1 - x)) / 2, element-wise; infinities at -1
// and 1, NaN beyond.
#include "ops/support/elementwise.hpp"
#include "ops/support/vector_math.hpp"

namespace troupe {
namespace {

// Writing dy for dL/dy:  dx = dy / (1 - x^2), as a product that is exact close to 1.
std::vector<Output> gradient(const GradientContext& ctx) {
  const Output x = ctx.input(0), dy = ctx.output_gradient(0);
  return {dy / ((1 - x) * (1 + x))};
}

struct Atanh {
  static constexpr bool kWhole = true;
  template <class T>
  static T apply(T x) {
    return math::atanh(x);
  }
};

}  // namespace

Op atanh_op() {
  return {.name = "Atanh",
          .inputs = {"x"},
          .outputs = {"y"},
          .infer_shapes = infer_same_shape,
          .gradient = gradient,
          .kernels = unary_kernels<Atanh, float, double>(),
          .in_place = true,
          .precision = Precision::wide};
}

Output atanh(Output x, Origin at) { return add_node({.op = "Atanh", .inputs = {x}}, at); }

}  // namespace troupe
