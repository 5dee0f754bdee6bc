// The gradient of a Call: a call of a function that takes the arguments and the gradients of the
// results, computes the body again, and goes back through it. If the body calls its function, the
// gradient's body calls the gradient function, whose name is known before it has a body.
#include "gradients/function_parts.hpp"
#include "graph/frames.hpp"
#include "graph/op.hpp"
#include "ops/elementwise/type_list.hpp"
#include "troupe/ops.hpp"

namespace troupe {
namespace {

std::vector<TensorType> floating_of(const std::vector<TensorType>& types) {
  std::vector<TensorType> out;
  for (const TensorType& type : types)
    if (is_floating(type.dtype)) out.push_back(type);
  return out;
}

Output zeros_for(const Output& x) {
  Graph& graph = *x.graph;
  if (x.shape().is_known()) return fill(graph, x.shape(), 0, x.dtype(), "zeros");
  return broadcast_like(fill(graph, Shape{}, 0, x.dtype(), "zero"), x);
}

int32_t find_gradient_function(const Graph& graph, const Node& function) {
  for (const auto& node : graph.nodes())
    if (node->op->control == ControlKind::function &&
        node->attr<std::string>("gradient_of") == function.name)
      return node->id;
  return -1;
}

// Fills in the body, in the frame of `back`.
void fill_in(Graph& graph, const Node& function, int32_t back) {
  const auto frame = open_frame(graph, back);
  const std::vector<TensorType> taken = types_in(function, "arguments");
  const std::vector<Output> arguments =
      add_arguments(graph, types_in(graph.node(back), "arguments"));
  CopyRules rules;
  rules.one_device = true;
  rules.same_draws = true;
  rules.outside = [&](Output value) -> Output {
    throw InternalError("the body of ", function.name, " reads ", value.name(), " around it");
  };
  const std::vector<Output> results = copy_body(graph, function.id, arguments, rules);
  std::vector<Output> xs, ys, y_gradients, x_gradients;
  for (size_t i = 0; i < taken.size(); ++i)
    if (is_floating(taken[i].dtype)) xs.push_back(arguments[i]);
  for (const Output& y : results) {
    if (!is_floating(y.dtype())) continue;
    ys.push_back(y);
    y_gradients.push_back(arguments[taken.size() + y_gradients.size()]);
  }
  x_gradients = gradients(ys, xs, y_gradients);
  for (size_t i = 0; i < xs.size(); ++i)
    x_gradients[i] = captured(graph, x_gradients[i].defined() ? x_gradients[i] : zeros_for(xs[i]));
  graph.add({.op = "Return", .inputs = x_gradients});
}

}  // namespace

int32_t gradient_function(Graph& graph, int32_t opener) {
  const Node& function = graph.node(opener);
  if (const int32_t known = find_gradient_function(graph, function); known >= 0) return known;
  std::vector<TensorType> arguments = types_in(function, "arguments");
  const std::vector<TensorType> results = floating_of(arguments);
  for (const TensorType& type : floating_of(types_in(function, "results")))
    arguments.push_back(type);
  const auto away = open_frame(graph, opener);  // the scope's control inputs belong to the call
  const auto outside = open_frame(graph, -1);
  const auto anywhere = graph.scope({.device = ""});
  const auto like = graph.scope({.device = function.device,
                                 .replica = function.replica,
                                 .colocate_with = function.name,
                                 .origin = Origin{function.file.c_str(), function.line}});
  const int32_t back = graph
                           .add({.op = "Function",
                                 .attrs = {{"arguments", text_of(arguments)},
                                           {"results", text_of(results)},
                                           {"depth_max", function.attr<int64_t>("depth_max")},
                                           {"gradient_of", function.name},
                                           {"path", function.attr<int64_t>("path")}},
                                 .name = last_part(function.name) + "_gradient"})
                           .node;
  const auto scope = graph.scope({.name = last_part(graph.node(back).name)});
  fill_in(graph, function, back);
  return back;
}

std::vector<Output> call_gradient(const GradientContext& ctx) {
  Graph& graph = ctx.graph();
  const Node& call = ctx.node();
  const Node* function = opener_called(graph, ctx.attr<std::string>("function"));
  if (!function || is_pattern(*function))
    throw Error(Errc::invalid_argument, describe(call), ": gradients() inside the body of ",
                ctx.attr<std::string>("function"),
                " goes through a call of a function whose body "
                "is not complete yet; differentiate what the function returns instead");
  std::vector<Output> out(call.inputs.size());
  std::vector<Output> inputs = call.inputs;
  std::vector<size_t> floating;
  for (size_t i = 0; i < inputs.size(); ++i)
    if (is_floating(inputs[i].dtype())) floating.push_back(i);
  if (floating.empty()) return out;
  for (int32_t i = 0; i < static_cast<int32_t>(call.outputs.size()); ++i) {
    if (!is_floating(ctx.output(i).dtype())) continue;
    const Output given = ctx.output_gradient(i);
    inputs.push_back(given.defined() ? given : zeros_for(ctx.output(i)));
  }
  const int32_t back = gradient_function(graph, function->id);
  const auto results = add_call(graph, back, std::move(inputs), {call.file.c_str(), call.line});
  for (size_t i = 0; i < floating.size(); ++i) out[floating[i]] = results[i];
  return out;
}

}  // namespace troupe
