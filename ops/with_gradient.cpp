// WithGradient: y = x, where gradients() asks a function of the program how to go back. The
// function belongs to the Graph object, so a graph that was written down and read again runs, but
// refuses to be differentiated here.
#include "ops/node.hpp"
#include "troupe/ops.hpp"

namespace troupe {
namespace {

std::vector<Shape> infer_shapes(const InferContext& ctx) { return {ctx.input(0)}; }

void cpu(KernelContext& ctx) { ctx.set_output(0, ctx.input(0)); }

}  // namespace

Op with_gradient_op() {
  return {.name = "WithGradient",
          .inputs = {"x"},
          .outputs = {"y"},
          .infer_shapes = infer_shapes,
          .no_gradient =
              "its backward function belongs to the Graph object where with_gradient() was called, "
              "and text and "
              "protobuf forms do not hold it",
          .kernels = {{DeviceKind::cpu, DType::none, cpu}},
          .aliases = true};
}

Output with_gradient(
    const std::vector<Output>& inputs, Output result,
    std::function<std::vector<Output>(const std::vector<Output>&, Output, Output)> backward,
    Origin at) {
  const Output y = add_node({.op = "WithGradient", .inputs = {result}}, at);
  const auto refuse = [y](const auto&... parts) {
    return Error(Errc::invalid_argument, describe(y.graph->node(y.node)), ": ",
                 detail::concat(parts...));
  };
  for (size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i].graph != y.graph)
      throw refuse("input ", i, " is undefined or of another graph than the result");
  if (!backward) throw refuse("the backward function is empty");
  y.graph->set_backward(y.node, {.inputs = inputs, .build = [=](Output y_gradient) {
                                   std::vector<Output> gradients = backward(inputs, y, y_gradient);
                                   if (gradients.size() != inputs.size())
                                     throw refuse("the backward function gave ", gradients.size(),
                                                  " gradients for ", inputs.size(), " inputs");
                                   return gradients;
                                 }});
  return y;
}

}  // namespace troupe
