// Capture: y = x, a value of the surrounding frame, used inside a branch or a loop's body. In a
// loop it is the same in all iterations. Graph::add() makes these nodes. Any dtype.
#include "graph/op.hpp"
#include "ops/support/node.hpp"

namespace troupe {

Op capture_op() {
  return {.name = "Capture",
          .inputs = {"x"},
          .outputs = {"y"},
          .infer_shapes = infer_same_shape,
          .no_gradient = "gradients() goes back through it itself, out of the frame",
          .kernels = {{DeviceKind::cpu, DType::none, pass_on}},
          .control = ControlKind::capture,
          .aliases = true,
          .precision = Precision::kept};
}

}  // namespace troupe
