// Call: calls the function that attribute `function` names. `results` lists the types of the call's
// results, "f32[2, -1] i64[]". The engine runs the function's body anew for each firing. Gradient:
// a call of the function's gradient function (gradients/function_gradient.cpp).
#include "graph/op.hpp"
#include "ops/support/node.hpp"
#include "ops/elementwise/type_list.hpp"

namespace troupe {
namespace {

std::vector<TensorType> results_of(const InferContext& ctx) {
  auto types = types_of(ctx.attr<std::string>("results"));
  if (!types || types->empty())
    throw ctx.error("attribute results is no list of types: \"", ctx.attr<std::string>("results"),
                    "\"; write \"f32[2, -1] i64[]\"");
  return *types;
}

std::vector<DType> infer_dtypes(const InferContext& ctx) {
  std::vector<DType> dtypes;
  for (const TensorType& type : results_of(ctx)) dtypes.push_back(type.dtype);
  return dtypes;
}

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  std::vector<Shape> shapes;
  for (const TensorType& type : results_of(ctx)) shapes.push_back(type.shape);
  return shapes;
}

void cpu(KernelContext& ctx) { throw ctx.error("runs in a session alone"); }

constexpr OpProperties kProperties = {
    .frame = {.function = [](const Node& node) -> const std::string& {
      return node.attr<std::string>("function");
    }}};

}  // namespace

Op call_op() {
  return {.name = "Call",
          .inputs = {"arguments..."},
          .outputs = {"results..."},
          .attrs = {{"function", AttrKind::text}, {"results", AttrKind::text}},
          .infer_dtypes = infer_dtypes,
          .infer_shapes = infer_shapes,
          .no_gradient = "gradients() goes back through it itself, by a call of another function",
          .kernels = {{DeviceKind::cpu, DType::none, cpu}},
          .control = ControlKind::call,
          .stateful = true,  // the body may be stateful
          .precision = Precision::kept,
          .properties = &kProperties};
}

}  // namespace troupe
