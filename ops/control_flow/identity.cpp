// Identity: y = x, under its own name. Any dtype.
//
// StopGradient: y = x without a gradient: gradients() treats y as a constant.
//
// WithGradient: y = x; gradients() calls the program's function for its gradient. The function
// belongs to the Graph object, so a graph that was serialised and read again runs, but cannot be
// differentiated here.
#include "graph/graph_state.hpp"
#include "ops/support/node.hpp"
#include "troupe/ops.hpp"

namespace troupe {
namespace {

// y = x, which a pass may take for y.
Op pass_on_op(const char* name, decltype(Op::gradient) gradient, const char* no_gradient) {
  return {.name = name,
          .inputs = {"x"},
          .outputs = {"y"},
          .infer_shapes = infer_same_shape,
          .gradient = gradient,
          .no_gradient = no_gradient,
          .kernels = {{.run = pass_on}},
          .aliases = true,
          .precision = Precision::kept,
          .properties = &kPassesOn};
}

}  // namespace

Op identity_op() {
  const auto gradient = [](const GradientContext& ctx) {
    return std::vector{ctx.output_gradient(0)};
  };
  return pass_on_op("Identity", gradient, "");
}

Output identity(Output x, std::string_view name, Origin at) {
  return add_node({.op = "Identity", .inputs = {x}, .name = name}, at);
}

Op stop_gradient_op() {
  const auto gradient = [](const GradientContext&) { return std::vector{Output{}}; };
  return pass_on_op("StopGradient", gradient, "it is there to have none");
}

Output stop_gradient(Output x, Origin at) {
  return add_node({.op = "StopGradient", .inputs = {x}}, at);
}

Op with_gradient_op() {
  return pass_on_op("WithGradient", nullptr,
                    "its backward function belongs to the Graph object where with_gradient() was "
                    "called, and text and protobuf forms do not hold it");
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
