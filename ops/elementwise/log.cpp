// Log: y = the natural logarithm of x, element-wise; -infinity at 0, NaN below.
#include "ops/support/elementwise.hpp"
#include "ops/support/vector_math.hpp"

namespace troupe {
namespace {

// Writing dy for dL/dy:  dx = dy / x.
std::vector<Output> gradient(const GradientContext& ctx) {
  return {divide(ctx.output_gradient(0), ctx.input(0))};
}

struct Log {
  static constexpr bool kWhole = true;
  template <class T>
  static T apply(T x) {
    return math::log(x);
  }
};

}  // namespace

Op log_op() {
  return {.name = "Log",
          .inputs = {"x"},
          .outputs = {"y"},
          .infer_shapes = infer_same_shape,
          .gradient = gradient,
          .kernels = unary_kernels<Log, float, double>(),
          .in_place = true,
          .precision = Precision::wide};
}

Output log(Output x, Origin at) { return add_node({.op = "Log", .inputs = {x}}, at); }

}  // namespace troupe
