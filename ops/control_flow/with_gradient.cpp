// WithGradient: y = x, where gradients() asks a function of the program how to go back. The
// function belongs to the Graph object, so a graph that was written down and read again runs, but
// refuses to be differentiated here.
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
          .precision = Precision::kept};
}

Output with_gradient(
    const std::vector<Output>& inputs, Output result,
    std::function<std::vector<Output>(const std::vector<Output>&, Output, Output)> backward,
    Origin at) {
  // Before there is a node, which a refused call would leave behind.
  const auto refuse = [at](const auto&... parts) {
    return Error(Errc::invalid_argument, "WithGradient made at ", at.file, ":", at.line, ": ",
                 detail::concat(parts...));
  };
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].defined() || inputs[i].graph != result.graph)
      throw refuse("input ", i, " is undefined or of another graph than the result; ",
                   "name what the result was made of");
    (void)inputs[i].dtype();  // throws for what is no output
  }
  if (!backward)
    throw refuse("the backward function is empty; it makes the inputs' gradients of y's");
  const Output y = add_node({.op = "WithGradient", .inputs = {result}}, at);
  y.graph->set_backward(
      y.node, {.inputs = inputs, .build = [=](Output y_gradient) {
                 std::vector<Output> gradients = backward(inputs, y, y_gradient);
                 if (gradients.size() != inputs.size())
                   throw Error(Errc::invalid_argument, describe(y.graph->node(y.node)),
                               ": the backward function gave ", gradients.size(), " gradients for ",
                               inputs.size(),
                               " inputs; it gives one for each, an undefined one for none");
                 return gradients;
               }});
  return y;
}

}  // namespace troupe
