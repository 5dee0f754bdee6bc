// Save: keeps x, in a loop once an iteration, for a Restore on the same device that runs later: a
// loop's gradient needs values of the forward loop. No outputs. Any dtype.
#include "graph/op.hpp"
#include "ops/support/node.hpp"

namespace troupe {
namespace {

void cpu(KernelContext&) {}  // the engine keeps x

}  // namespace

Op save_op() {
  return {.name = "Save",
          .inputs = {"x"},
          .no_gradient = "it has no outputs",
          .kernels = {{DeviceKind::cpu, DType::none, cpu}},
          .control = ControlKind::save,
          .stateful = true,
          .precision = Precision::kept};
}

}  // namespace troupe
