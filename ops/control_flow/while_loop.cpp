// while_loop: a frame with the variables, the condition and a branch for the body, and a While node
// outside it.
#include "graph/frames.hpp"
#include "ops/control_flow/loop_builder.hpp"

namespace troupe {
namespace {

void check_call(const LoopCondition& condition, const LoopBody& body,
                const std::vector<Output>& initial, const WhileOptions& options, Origin at) {
  if (!condition || !body) throw refused("while_loop", at, "its condition or body is empty");
  if (initial.empty())
    throw refused("while_loop", at, "wants at least one variable; without one nothing can change");
  for (const Output& value : initial) require_defined("while_loop", at, {value});
  if (!options.shapes.empty() && options.shapes.size() != initial.size())
    throw refused("while_loop", at, "got ", options.shapes.size(), " shapes for ", initial.size(),
                  " variables; give one for each, or none");
}

void check_next(const std::vector<Output>& variables, const std::vector<Output>& next, Origin at) {
  if (next.size() != variables.size())
    throw refused("while_loop", at, "the body returns ", next.size(), " values for ",
                  variables.size(), " variables; return the next value of each");
  for (size_t i = 0; i < next.size(); ++i) {
    if (!next[i].defined() || next[i].graph != variables[i].graph)
      throw refused("while_loop", at, "the body returns an Output for variable ", i,
                    " that is undefined or of another graph");
    const TensorType now{variables[i].dtype(), variables[i].shape()},
        then{next[i].dtype(), next[i].shape()};
    if (now.dtype != then.dtype || !may_equal(now.shape, then.shape))
      throw refused("while_loop", at, "variable ", i, " is ", now, ", but the body makes ", then,
                    " of it; cast or reshape it, or say with WhileOptions::shapes which sizes "
                    "change");
  }
}

}  // namespace

std::vector<Output> while_loop(const LoopCondition& condition, const LoopBody& body,
                               const std::vector<Output>& initial, const WhileOptions& options,
                               Origin at) {
  check_call(condition, body, initial, options, at);
  Graph& graph = *initial[0].graph;
  const auto scope = graph.scope({.name = std::string(options.name)}, at);
  LoopBuilder loop(graph, options, at);
  std::vector<Output> values;
  {
    const auto frame = open_frame(graph, loop.frame(), {}, at);
    for (size_t i = 0; i < initial.size(); ++i)
      loop.variable(initial[i], options.shapes.empty() ? initial[i].shape() : options.shapes[i]);
    const std::vector<Output> variables = loop.variables();
    const Output again = condition(variables);
    require_defined("while_loop", at, {again});
    if (again.dtype() != DType::boolean || again.shape().ndim() != 0)
      throw refused("while_loop", at, "wants a bool scalar as its condition, got ", again.dtype(),
                    again.shape(), "; compare, and reduce_all or reduce_any it");
    const int32_t opener = loop.body(again);
    const auto inner = graph.scope({.name = "body"}, at);
    const auto in_body = open_frame(graph, opener, {}, at);
    const std::vector<Output> next = body(variables);
    check_next(variables, next, at);
    for (const Output& value : next) values.push_back(captured(graph, value, at));
  }
  return loop.finish(values);
}

}  // namespace troupe
