// Multiply: c = a * b, element-wise and broadcasting.
//   a, b: shapes that broadcast to that of c. Integers wrap around.
#include "ops/support/elementwise.hpp"
#include "ops/support/narrow.hpp"

namespace troupe {
namespace {

// Writing dc for dL/dc:  da = dc * b  and  db = dc * a.
std::vector<Output> gradient(const GradientContext& ctx) {
  const Output a = ctx.input(0), b = ctx.input(1), dc = ctx.output_gradient(0);
  return {undo_broadcast(multiply(dc, b), a), undo_broadcast(multiply(dc, a), b)};
}

}  // namespace

Op multiply_op() {
  return {.name = "Multiply",
          .inputs = {"a", "b"},
          .outputs = {"c"},
          .infer_shapes = infer_broadcast,
          .gradient = gradient,
          .kernels = with_i8(binary_kernels<Multiply, float, double, int32_t, int64_t, uint8_t>()),
          .in_place = true};
}

Output multiply(Output a, Output b, Origin at) {
  return add_node({.op = "Multiply", .inputs = {a, b}}, at);
}

}  // namespace troupe
