// SquaredDifference: c = (a - b)^2, element-wise and broadcasting.
//   a, b: shapes that broadcast to that of c. Integers wrap around.
#include "ops/support/elementwise.hpp"
#include "ops/support/narrow.hpp"

namespace troupe {
namespace {

// Writing dc for dL/dc:  da = 2 * (a - b) * dc  and  db = -da.
std::vector<Output> gradient(const GradientContext& ctx) {
  const Output a = ctx.input(0), b = ctx.input(1);
  const Output half = multiply(subtract(a, b), ctx.output_gradient(0)), da = add(half, half);
  return {undo_broadcast(da, a), negate(undo_broadcast(da, b))};
}

struct SquaredDifference {
  template <class T>
  static T apply(T a, T b) {
    const wrapping<T> d = static_cast<wrapping<T>>(wrapping<T>(a) - wrapping<T>(b));
    return static_cast<T>(d * d);
  }
};

}  // namespace

Op squared_difference_op() {
  return {.name = "SquaredDifference",
          .inputs = {"a", "b"},
          .outputs = {"c"},
          .infer_shapes = infer_broadcast,
          .gradient = gradient,
          .kernels = with_i8(
              binary_kernels<SquaredDifference, float, double, int32_t, int64_t, uint8_t>()),
          .in_place = true,
          .precision = Precision::wide};
}

Output squared_difference(Output a, Output b, Origin at) {
  return add_node({.op = "SquaredDifference", .inputs = {a, b}}, at);
}

}  // namespace troupe
