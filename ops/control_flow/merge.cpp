// Merge: y = its one live input, the result of the branch that ran. The inputs have one dtype and
// number of dimensions; a size in which they differ is unknown before the step runs.
#include "graph/op.hpp"
#include "ops/support/node.hpp"
#include "troupe/ops/control_flow.hpp"

namespace troupe {
namespace {

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  Shape shape = ctx.input(0);
  for (int i = 1; i < ctx.input_count(); ++i) {
    const Shape& other = ctx.input(i);
    if (other.ndim() != shape.ndim())
      throw ctx.error("wants values with one number of dimensions, got ", ctx.input(0), " and ",
                      other, "; reshape what one of the branches returns");
    for (int d = 0; d < shape.ndim(); ++d)
      if (other[d] != shape[d]) shape.set(d, -1);
  }
  return {shape};
}

// The engine passes the live input. In a plain evaluation all are present, and y is the first.
void cpu(KernelContext& ctx) { ctx.set_output(0, ctx.input(0)); }

}  // namespace

Op merge_op() {
  return {.name = "Merge",
          .inputs = {"x..."},
          .outputs = {"y"},
          .infer_shapes = infer_shapes,
          .no_gradient = "gradients() goes back through it itself, into each branch",
          .kernels = {{DeviceKind::cpu, DType::none, cpu}},
          .control = ControlKind::merge,
          .aliases = true,
          .precision = Precision::kept};
}

}  // namespace troupe
