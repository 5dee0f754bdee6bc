// Square: y = x * x, element-wise. Integers wrap around.
#include "ops/support/elementwise.hpp"
#include "ops/support/narrow.hpp"

namespace troupe {
namespace {

// Writing dy for dL/dy:  dx = 2 * x * dy.
std::vector<Output> gradient(const GradientContext& ctx) {
  const Output x = ctx.input(0), dy = ctx.output_gradient(0);
  return {multiply(multiply(dy, constant_like(2, x)), x)};
}

struct Square {
  template <class T>
  static T apply(T x) {
    return static_cast<T>(wrapping<T>(x) * wrapping<T>(x));
  }
};

}  // namespace

Op square_op() {
  return {.name = "Square",
          .inputs = {"x"},
          .outputs = {"y"},
          .infer_shapes = infer_same_shape,
          .gradient = gradient,
          .kernels = with_i8(unary_kernels<Square, float, double, int32_t, int64_t, uint8_t>()),
          .in_place = true,
          .precision = Precision::wide};
}

Output square(Output x, Origin at) { return add_node({.op = "Square", .inputs = {x}}, at); }

}  // namespace troupe
