// LogicalOr: c = a or b, element-wise and broadcasting, of bool.
#include "ops/support/elementwise.hpp"

namespace troupe {
Op logical_or_op() {
  return {.name = "LogicalOr",
          .inputs = {"a", "b"},
          .outputs = {"c"},
          .infer_shapes = infer_broadcast,
          .no_gradient = "its values are bool",
          .kernels = binary_kernels<LogicalOr, bool>(),
          .in_place = true};
}

Output logical_or(Output a, Output b, Origin at) {
  return add_node({.op = "LogicalOr", .inputs = {a, b}}, at);
}

}  // namespace troupe
