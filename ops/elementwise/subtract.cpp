// Subtract: c = a - b, element-wise and broadcasting.
//   a, b: shapes that broadcast to that of c. Integers wrap around.
#include "ops/support/elementwise.hpp"
#include "ops/support/narrow.hpp"

namespace troupe {
namespace {

// Writing dc for dL/dc:  da = dc  and  db = -dc.
std::vector<Output> gradient(const GradientContext& ctx) {
  const Output dc = ctx.output_gradient(0);
  return {undo_broadcast(dc, ctx.input(0)), negate(undo_broadcast(dc, ctx.input(1)))};
}

struct Subtract {
  template <class T>
  static T apply(T a, T b) {
    return static_cast<T>(wrapping<T>(a) - wrapping<T>(b));
  }
};

}  // namespace

Op subtract_op() {
  return {.name = "Subtract",
          .inputs = {"a", "b"},
          .outputs = {"c"},
          .infer_shapes = infer_broadcast,
          .gradient = gradient,
          .kernels = with_i8(binary_kernels<Subtract, float, double, int32_t, int64_t, uint8_t>()),
          .in_place = true};
}

Output subtract(Output a, Output b, Origin at) {
  return add_node({.op = "Subtract", .inputs = {a, b}}, at);
}

}  // namespace troupe
