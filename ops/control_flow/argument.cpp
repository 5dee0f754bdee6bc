// Argument: y = argument number `index` of the function call that runs the node's function.
#include "graph/op.hpp"
#include "ops/support/node.hpp"

namespace troupe {
namespace {

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  if (ctx.attr<int64_t>("index") < 0)
    throw ctx.error("wants the number of an argument, got ", ctx.attr<int64_t>("index"));
  return {ctx.attr<Shape>("shape")};
}

// The engine supplies the value.
void cpu(KernelContext& ctx) { throw ctx.error("has a value in a call alone"); }

constexpr OpProperties kProperties = {
    .frame = {.index = [](const Node& node) { return node.attr<int64_t>("index"); }}};

}  // namespace

Op argument_op() {
  return {.name = "Argument",
          .outputs = {"y"},
          .attrs = {{"index", AttrKind::integer},
                    {"dtype", AttrKind::dtype},
                    {"shape", AttrKind::shape}},
          .infer_dtypes = infer_dtype_attr,
          .infer_shapes = infer_shapes,
          .no_gradient = "it has no inputs",
          .kernels = {{DeviceKind::cpu, DType::none, cpu}},
          .dispatch = -1,
          .control = ControlKind::argument,
          .stateful = true,
          .properties = &kProperties};
}

}  // namespace troupe
