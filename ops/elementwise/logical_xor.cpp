// LogicalXor: c = either a or b, but not both, element-wise and broadcasting, of bool.
#include "ops/support/elementwise.hpp"

namespace troupe {
namespace {

struct LogicalXor {
  static bool apply(bool a, bool b) { return a != b; }
};

}  // namespace

Op logical_xor_op() {
  return {.name = "LogicalXor",
          .inputs = {"a", "b"},
          .outputs = {"c"},
          .infer_shapes = infer_broadcast,
          .no_gradient = "its values are bool",
          .kernels = binary_kernels<LogicalXor, bool>(),
          .in_place = true};
}

Output logical_xor(Output a, Output b, Origin at) {
  return add_node({.op = "LogicalXor", .inputs = {a, b}}, at);
}

}  // namespace troupe
