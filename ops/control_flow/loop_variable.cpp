// LoopVariable: y = its input in the first iteration, and in later iterations the loop's result of
// the previous one. Attribute `shape` is its shape in every iteration; `counts`: it is the
// iteration number. Any dtype.
#include "graph/op.hpp"
#include "ops/support/node.hpp"

namespace troupe {
namespace {

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  const Shape& shape = ctx.attr<Shape>("shape");
  const Shape& initial = ctx.input(0);
  bool fits = shape.ndim() == initial.ndim();
  for (int d = 0; fits && d < shape.ndim(); ++d) fits = shape[d] < 0 || shape[d] == initial[d];
  if (!fits)
    throw ctx.error("is ", shape, ", which its initial value ", initial,
                    " is not; a size that changes or is not known is -1");
  return {shape};
}

}  // namespace

Op loop_variable_op() {
  return {.name = "LoopVariable",
          .inputs = {"initial"},
          .outputs = {"y"},
          .attrs = {{"shape", AttrKind::shape}, {"counts", AttrKind::boolean, false}},
          .infer_shapes = infer_shapes,
          .no_gradient = "gradients() goes back through the whole loop",
          .kernels = {{DeviceKind::cpu, DType::none, pass_on}},
          .control = ControlKind::variable,
          .stateful = true,  // two with one initial value stay two
          .aliases = true,
          .precision = Precision::kept};
}

}  // namespace troupe
