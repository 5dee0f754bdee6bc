// Placeholder: y = the value that the caller feeds. Sizes of -1 are taken from the fed tensor. A
// step that needs it fails if no value is fed.
#include "ops/support/node.hpp"
#include "troupe/ops.hpp"

namespace troupe {
namespace {

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  if (ctx.node().frame >= 0)
    throw ctx.error(
        "stands inside a branch or a loop, where nothing can be fed; make it outside, and read it "
        "inside");
  return {ctx.attr<Shape>("shape")};
}

void cpu(KernelContext& ctx) {
  throw ctx.error("was not fed; pass a ", ctx.attr<DType>("dtype"), ctx.attr<Shape>("shape"),
                  " tensor for it in the feeds of the run");
}

}  // namespace

Op placeholder_op() {
  return {.name = "Placeholder",
          .outputs = {"y"},
          .attrs = {{"dtype", AttrKind::dtype}, {"shape", AttrKind::shape}},
          .infer_dtypes = infer_dtype_attr,
          .infer_shapes = infer_shapes,
          .no_gradient = "it has no inputs",
          .kernels = {{DeviceKind::cpu, DType::none, cpu}},
          .dispatch = -1,
          .stateful = true};
}

Output placeholder(Graph& graph, DType dtype, Shape shape, std::string_view name, Origin at) {
  return graph.add(
      {.op = "Placeholder", .attrs = {{"dtype", dtype}, {"shape", shape}}, .name = name}, at);
}

}  // namespace troupe
