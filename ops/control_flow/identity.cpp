// Identity: y = x, under its own name. Any dtype.
#include "ops/support/node.hpp"
#include "troupe/ops.hpp"

namespace troupe {
namespace {

std::vector<Output> gradient(const GradientContext& ctx) { return {ctx.output_gradient(0)}; }

}  // namespace

Op identity_op() {
  return {.name = "Identity",
          .inputs = {"x"},
          .outputs = {"y"},
          .infer_shapes = infer_same_shape,
          .gradient = gradient,
          .kernels = {{DeviceKind::cpu, DType::none, pass_on}},
          .aliases = true,
          .precision = Precision::kept,
          .properties = &kPassesOn};
}

Output identity(Output x, std::string_view name, Origin at) {
  return add_node({.op = "Identity", .inputs = {x}, .name = name}, at);
}

}  // namespace troupe
