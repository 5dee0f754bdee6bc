// Constant: y = a tensor that is part of the graph. Any dtype and shape.
#include "ops/support/node.hpp"
#include "troupe/ops.hpp"

namespace troupe {
namespace {

std::vector<DType> infer_dtypes(const InferContext& ctx) {
  return {ctx.attr<Tensor>("value").dtype()};
}

std::vector<Shape> infer_shapes(const InferContext& ctx) {
  return {ctx.attr<Tensor>("value").shape()};
}

struct Value final : KernelState {
  explicit Value(Tensor tensor) : tensor(std::move(tensor)) {}
  Tensor tensor;
};

std::unique_ptr<KernelState> prepare(const Node& node) {
  return std::make_unique<Value>(node.attr<Tensor>("value"));
}

void cpu(KernelContext& ctx) { ctx.set_output(0, ctx.state<Value>().tensor); }

constexpr OpProperties kProperties = {
    .constant = [](const Node& node) -> const Tensor& { return node.attr<Tensor>("value"); }};

}  // namespace

Op constant_op() {
  return {.name = "Constant",
          .outputs = {"y"},
          .attrs = {{"value", AttrKind::tensor}},
          .infer_dtypes = infer_dtypes,
          .infer_shapes = infer_shapes,
          .no_gradient = "it has no inputs",
          .kernels = {{DeviceKind::cpu, DType::none, cpu, nullptr, prepare}},
          .dispatch = -1,
          .properties = &kProperties};
}

Output constant(Graph& graph, Tensor value, std::string_view name, Origin at) {
  return graph.add({.op = "Constant", .attrs = {{"value", std::move(value)}}, .name = name}, at);
}

}  // namespace troupe
