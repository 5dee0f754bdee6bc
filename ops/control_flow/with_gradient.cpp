// WithGradient: y = x; gradients() calls the program's function for its gradient. The function
// belongs to the Graph object, so a graph that was serialised and read again runs, but cannot be
// differentiated here.
#include "graph/graph_state.hpp"
#include "ops/support/node.hpp"
#include "troupe/ops.hpp"

namespace troupe {

Op with_gradient_op() {
  return {.name = "WithGradient",
          .inputs = {"x"},
          .outputs = {"y"},
          .infer_shapes = infer_same_shape,
          .no_gradient =
              "its backward function belongs to the Graph object where with_gradient() was called, "
              "and text and "
              "protobuf forms do not hold it",
          .kernels = {{DeviceKind::cpu, DType::none, pass_on}},
          .aliases = true,
          .precision = Precision::kept,
          .properties = &kPassesOn};
}

Output with_gradient(
    const std::vector<Output>& inputs, Output result,
    std::function<std::vector<Output>(const std::vector<Output>&, Output, Output)> backward,
    Origin at) {
  // Checks before adding the node, so that a refused call leaves no node behind.
  const auto refuse = [at](const auto&... parts) {
    return Error(Errc::invalid_argument, "WithGradient made at ", at.file, ":", at.line, ": ",
                 detail::concat(parts...));
  };
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].defined() || inputs[i].graph != result.graph)
      throw refuse("input ", i, " is undefined or of another graph than the result; ",
                   "name what the result was made of");
    (void)inputs[i].dtype();  // throws if it is no output of the graph
  }
  if (!backward)
    throw refuse("the backward function is empty; it makes the inputs' gradients of y's");
  const Output y = add_node({.op = "WithGradient", .inputs = {result}}, at);
  set_backward(*y.graph, y.node,
               {.inputs = inputs, .build = [=](Output y_gradient) {
                  std::vector<Output> gradients = backward(inputs, y, y_gradient);
                  if (gradients.size() != inputs.size())
                    throw Error(Errc::invalid_argument, describe(y.graph->node(y.node)),
                                ": the backward function gave ", gradients.size(),
                                " gradients for ", inputs.size(),
                                " inputs; it gives one for each, an undefined one for none");
                  return gradients;
                }});
  return y;
}

}  // namespace troupe
