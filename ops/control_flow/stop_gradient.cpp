// StopGradient: y = x without a gradient: gradients() treats y as a constant.
#include "ops/support/node.hpp"
#include "troupe/ops.hpp"

namespace troupe {
namespace {

std::vector<Output> gradient(const GradientContext&) { return {Output{}}; }

}  // namespace

Op stop_gradient_op() {
  return {.name = "StopGradient",
          .inputs = {"x"},
          .outputs = {"y"},
          .infer_shapes = infer_same_shape,
          .gradient = gradient,
          .no_gradient = "it is there to have none",
          .kernels = {{DeviceKind::cpu, DType::none, pass_on}},
          .aliases = true,
          .precision = Precision::kept,
          .properties = &kPassesOn};
}

Output stop_gradient(Output x, Origin at) {
  return add_node({.op = "StopGradient", .inputs = {x}}, at);
}

}  // namespace troupe
