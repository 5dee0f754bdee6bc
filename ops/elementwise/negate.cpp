// Negate: y = -x, element-wise. Signed numbers; integers wrap around.
#include "ops/support/elementwise.hpp"
#include "ops/support/narrow.hpp"

namespace troupe {
namespace {

// Writing dy for dL/dy:  dx = -dy.
std::vector<Output> gradient(const GradientContext& ctx) {
  return {negate(ctx.output_gradient(0))};
}

struct Negate {
  template <class T>
  static T apply(T x) {
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(wrapping<T>(0) - wrapping<T>(x));
    else
      return -x;  // 0 - x would lose the sign of zero
  }
};

}  // namespace

Op negate_op() {
  return {.name = "Negate",
          .inputs = {"x"},
          .outputs = {"y"},
          .infer_shapes = infer_same_shape,
          .gradient = gradient,
          .kernels = with_i8(unary_kernels<Negate, float, double, int32_t, int64_t>()),
          .in_place = true};
}

Output negate(Output x, Origin at) { return add_node({.op = "Negate", .inputs = {x}}, at); }

}  // namespace troupe
