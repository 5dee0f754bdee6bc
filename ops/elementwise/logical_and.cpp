// LogicalAnd: c = a and b, element-wise and broadcasting, of bool.
#include "ops/support/elementwise.hpp"

namespace troupe {
Op logical_and_op() {
  return {.name = "LogicalAnd",
          .inputs = {"a", "b"},
          .outputs = {"c"},
          .infer_shapes = infer_broadcast,
          .no_gradient = "its values are bool",
          .kernels = binary_kernels<LogicalAnd, bool>(),
          .in_place = true};
}

Output logical_and(Output a, Output b, Origin at) {
  return add_node({.op = "LogicalAnd", .inputs = {a, b}}, at);
}

}  // namespace troupe
