// Maximum: c = max(a, b), element-wise and broadcasting; NaN if either is NaN.
//   a, b: shapes that broadcast to that of c.
#include "ops/elementwise.hpp"
#include "ops/narrow.hpp"

namespace troupe {
namespace {

// Writing dc for dL/dc:  da = dc where a >= b, else 0;  db = dc - da. Of equals, a gets it all.
std::vector<Output> gradient(const GradientContext& ctx) {
  const Output a = ctx.input(0), b = ctx.input(1), dc = ctx.output_gradient(0);
  const Output b_wins = greater(b, a), zero = constant_like(0, dc);
  return {undo_broadcast(where(b_wins, zero, dc), a), undo_broadcast(where(b_wins, dc, zero), b)};
}

}  // namespace

Op maximum_op() {
  return {.name = "Maximum",
          .inputs = {"a", "b"},
          .outputs = {"c"},
          .infer_shapes = infer_broadcast,
          .gradient = gradient,
          .kernels = with_i8(binary_kernels<Maximum, float, double, int32_t, int64_t, uint8_t>()),
          .in_place = true};
}

Output maximum(Output a, Output b, Origin at) {
  return add_node({.op = "Maximum", .inputs = {a, b}}, at);
}

}  // namespace troupe
