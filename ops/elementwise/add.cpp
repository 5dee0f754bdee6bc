// Add: c = a + b, element-wise and broadcasting.
//   a, b: shapes that broadcast to that of c. Integers wrap around.
#include "ops/support/elementwise.hpp"
#include "ops/support/narrow.hpp"

namespace troupe {
namespace {

// Writing dc for dL/dc:  da = dc  and  db = dc.
std::vector<Output> gradient(const GradientContext& ctx) {
  const Output dc = ctx.output_gradient(0);
  return {undo_broadcast(dc, ctx.input(0)), undo_broadcast(dc, ctx.input(1))};
}

}  // namespace

Op add_op() {
  return {.name = "Add",
          .inputs = {"a", "b"},
          .outputs = {"c"},
          .infer_shapes = infer_broadcast,
          .gradient = gradient,
          .kernels = with_i8(binary_kernels<Add, float, double, int32_t, int64_t, uint8_t>()),
          .in_place = true};
}

Output add(Output a, Output b, Origin at) { return add_node({.op = "Add", .inputs = {a, b}}, at); }

}  // namespace troupe
