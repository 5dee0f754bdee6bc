// Return: its inputs are the results of a call of the node's function. No outputs.
#include "graph/op.hpp"
#include "ops/support/node.hpp"

namespace troupe {
namespace {

void cpu(KernelContext&) {}

}  // namespace

Op return_op() {
  return {.name = "Return",
          .inputs = {"values..."},
          .infer_dtypes = [](const InferContext&) { return std::vector<DType>(); },
          .infer_shapes = [](const InferContext&) { return std::vector<Shape>(); },
          .no_gradient = "it has no outputs",
          .kernels = {{DeviceKind::cpu, DType::none, cpu}},
          .control = ControlKind::result,
          .precision = Precision::kept};
}

}  // namespace troupe
