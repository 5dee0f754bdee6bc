// LogicalNot: y = not x, element-wise, of bool.
#include "ops/support/elementwise.hpp"

namespace troupe {
namespace {

struct LogicalNot {
  static uint8_t apply(uint8_t x) { return x ^ 1; }
};

// Takes bools for bytes of 0 and 1, as loops over bool are not vectorised.
void cpu(KernelContext& ctx) {
  const auto* x = static_cast<const uint8_t*>(ctx.input(0).raw());
  const int64_t n = ctx.input(0).size();
  auto* y = static_cast<uint8_t*>(ctx.output_in_place().mutable_raw());
  map_elements<LogicalNot>(x, y, n);
}

}  // namespace

Op logical_not_op() {
  return {.name = "LogicalNot",
          .inputs = {"x"},
          .outputs = {"y"},
          .infer_shapes = infer_same_shape,
          .no_gradient = "bool has no slope",
          .kernels = {{.dtype = DType::boolean,
                       .run = cpu,
                       .elements = unary_elements<LogicalNot, uint8_t>}},
          .in_place = true};
}

Output logical_not(Output x, Origin at) {
  return add_node({.op = "LogicalNot", .inputs = {x}}, at);
}

}  // namespace troupe
