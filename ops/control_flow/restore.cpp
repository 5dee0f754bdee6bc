// Restore: y = the value last kept by the Save that it runs after and not yet taken; attributes
// dtype and shape give its type. Any dtype.
#include "graph/op.hpp"
#include "ops/support/node.hpp"

namespace troupe {
namespace {

std::vector<Shape> infer_shapes(const InferContext& ctx) { return {ctx.attr<Shape>("shape")}; }

void cpu(KernelContext& ctx) { throw ctx.error("has nothing to take outside a step"); }

}  // namespace

Op restore_op() {
  return {.name = "Restore",
          .outputs = {"y"},
          .attrs = {{"dtype", AttrKind::dtype}, {"shape", AttrKind::shape}},
          .infer_dtypes = infer_dtype_attr,
          .infer_shapes = infer_shapes,
          .no_gradient =
              "gradients() inside the loop that takes it does not reach what was saved; "
              "differentiate what that loop returns instead",
          .kernels = {{DeviceKind::cpu, DType::none, cpu}},
          .dispatch = -1,
          .control = ControlKind::restore,
          .stateful = true,
          .precision = Precision::kept};
}

}  // namespace troupe
