// Abs: y = |x|, element-wise. Signed numbers; integers wrap around: the least one stays what it is.
#include <cmath>

#include "ops/support/elementwise.hpp"
#include "ops/support/narrow.hpp"

namespace troupe {
namespace {

// Writing dy for dL/dy:  dx = dy * sign(x), so 0 at 0.
std::vector<Output> gradient(const GradientContext& ctx) {
  const Output x = ctx.input(0), dy = ctx.output_gradient(0);
  return {dy * sign(x)};
}

struct Abs {
  template <class T>
  static T apply(T x) {
    if constexpr (std::is_integral_v<T>) {
      const wrapping<T> w = static_cast<wrapping<T>>(x);
      return static_cast<T>(x < 0 ? 0 - w : w);
    } else {
      return std::abs(x);
    }
  }
};

}  // namespace

Op abs_op() {
  return {.name = "Abs",
          .inputs = {"x"},
          .outputs = {"y"},
          .infer_shapes = infer_same_shape,
          .gradient = gradient,
          .kernels = with_i8(unary_kernels<Abs, float, double, int32_t, int64_t>()),
          .in_place = true};
}

Output abs(Output x, Origin at) { return add_node({.op = "Abs", .inputs = {x}}, at); }

}  // namespace troupe
