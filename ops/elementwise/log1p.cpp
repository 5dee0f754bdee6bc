// Log1p: y = log(1 + x), element-wise, exact where x is close to 0; -infinity at -1, NaN below.
#include "ops/support/elementwise.hpp"
#include "ops/support/vector_math.hpp"

namespace troupe {
namespace {

// Writing dy for dL/dy:  dx = dy / (1 + x).
std::vector<Output> gradient(const GradientContext& ctx) {
  const Output x = ctx.input(0), dy = ctx.output_gradient(0);
  return {dy / (1 + x)};
}

struct Log1p {
  static constexpr bool kWhole = true;
  template <class T>
  static T apply(T x) {
    return math::log1p(x);
  }
};

}  // namespace

Op log1p_op() {
  return {.name = "Log1p",
          .inputs = {"x"},
          .outputs = {"y"},
          .infer_shapes = infer_same_shape,
          .gradient = gradient,
          .kernels = unary_kernels<Log1p, float, double>(),
          .in_place = true,
          .precision = Precision::wide};
}

Output log1p(Output x, Origin at) { return add_node({.op = "Log1p", .inputs = {x}}, at); }

}  // namespace troupe
