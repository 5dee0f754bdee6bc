// declare_function, define_function and find_function, and the definition and call of a Function.
// An error names the function, the line, what was given and what would be right.
#include "troupe/ops/control_flow.hpp"

#include <algorithm>

#include "gradients/function_parts.hpp"
#include "graph/frames.hpp"
#include "graph/table_options.hpp"
#include "graph/op.hpp"
#include "ops/elementwise/type_list.hpp"
#include "troupe/ops.hpp"

namespace troupe {
namespace {

std::string listed(const std::vector<TensorType>& types) {
  return types.empty() ? "nothing" : text_of(types);
}

const Node& opener_of(const Function& function, const char* what, Origin at) {
  const Output& node = function.node();
  if (!node.defined())
    throw bad_function(
        what, "(none)", at,
        "it is an empty Function; make one with declare_function() or define_function()");
  const Node& opener = node.graph->node(node.node);
  if (opener.op->control != ControlKind::function || !is_pattern(opener))
    throw bad_function(what, opener.name, at, "the ", describe(opener),
                       " is no function of a program; find_function() gives those");
  return opener;
}

// The values that the body returned, as values inside its frame.
std::vector<Output> values_of(Graph& graph, const Node& opener, std::vector<Output> returned,
                              Origin at) {
  if (returned.empty())
    throw bad_function(
        "defined", opener.name, at,
        "its body returns nothing; return at least one value, or a node that has run");
  for (size_t i = 0; i < returned.size(); ++i) {
    Output& value = returned[i];
    if (!value.defined() || value.graph != &graph)
      throw bad_function("defined", opener.name, at, "its body returns an Output as number ", i,
                         " that is ", value.defined() ? "of another graph" : "undefined",
                         "; return results of ops of the graph that the function is in");
    if (graph.node(value.node).outputs.empty())
      value = graph.add({.op = "Constant",
                         .attrs = {{"value", Tensor::scalar(true)}},
                         .name = "has_run",
                         .control_inputs = {value.node}},
                        at);
    value = captured(graph, value, at);
  }
  return returned;
}

bool fits(const std::vector<TensorType>& wanted, const std::vector<TensorType>& given) {
  return std::equal(wanted.begin(), wanted.end(), given.begin(), given.end(),
                    [](const TensorType& a, const TensorType& b) {
                      return a.dtype == b.dtype && may_equal(a.shape, b.shape);
                    });
}

std::vector<TensorType> types_of(const std::vector<Output>& values) {
  std::vector<TensorType> types;
  for (const Output& value : values) types.push_back({value.dtype(), value.shape()});
  return types;
}

// For a parameter: the read of it for the replica of the call.
Output for_this_replica(Output value, Origin at) {
  Graph& graph = *value.graph;
  const Node& node = graph.node(value.node);
  if (node.op->name != "Parameter" || node.replica == graph.replica()) return value;
  if (const auto& table = node.attr<std::string>("touched_rows"); !table.empty())
    return table_parameter(graph, node.attr<std::string>("parameter"), value.shape(),
                           table_options_from_text(table), value.dtype(), at);
  return parameter(node.attr<std::string>("parameter"),
                   graph.output(node.attr<std::string>("initial")), at);
}

}  // namespace

bool Function::defined() const {
  return node_.defined() && return_of(*node_.graph, node_.node) != nullptr;
}

const std::string& Function::name() const { return node_.name(); }

void Function::define(const FunctionBody& body, Origin at) {
  const Node& opener = opener_of(*this, "defined", at);
  Graph& graph = *node_.graph;
  if (const Node* result = return_of(graph, opener.id))
    throw bad_function("defined", opener.name, at, "it has a body already, made at ", result->file,
                       ":", result->line, "; declare another function");
  if (!body) throw bad_function("defined", opener.name, at, "its body is an empty function");
  const auto anywhere = graph.scope({.device = ""});
  const auto like = graph.scope({.name = last_part(opener.name),
                                 .device = opener.device,
                                 .replica = opener.replica,
                                 .colocate_with = opener.colocate_with},
                                at);
  const auto frame = open_frame(graph, opener.id, {}, at);
  const std::vector<Output> arguments = add_arguments(graph, types_in(opener, "arguments"));
  const std::vector<Output> values = values_of(graph, opener, body(arguments), at);
  const std::vector<TensorType> declared = types_in(opener, "results"), given = types_of(values);
  if (!declared.empty() && !fits(declared, given))
    throw bad_function(
        "defined", opener.name, at, "its body returns ", listed(given),
        ", but its results were declared as ", listed(declared),
        "; cast or reshape what it returns, or declare what it is, -1 for sizes that "
        "differ");
  graph.add({.op = "Return", .inputs = values}, at);
}

std::vector<Output> Function::operator()(const std::vector<Output>& arguments, Origin at) const {
  const Node& opener = opener_of(*this, "called", at);
  Graph& graph = *node_.graph;
  const std::vector<TensorType> wanted = types_in(opener, "arguments");
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (!arguments[i].defined())
      throw bad_function("called", opener.name, at, "argument ", i,
                         " is an undefined Output; pass the result of an op");
    if (arguments[i].graph != &graph)
      throw bad_function(
          "called", opener.name, at, "argument ", i, " (", arguments[i].name(),
          ") is of another graph than the function; define the function in that graph, "
          "too");
  }
  const std::vector<TensorType> given = types_of(arguments);
  if (!fits(wanted, given))
    throw bad_function("called", opener.name, at, "wants ", wanted.size(),
                       wanted.size() == 1 ? " argument (" : " arguments (", listed(wanted),
                       "), got ", given.size(), " (", listed(given),
                       given.size() == wanted.size()
                           ? "); cast or reshape them, or declare -1 for sizes that differ"
                           : ")");
  return call_pattern(
      graph, opener, arguments, [at](Output value) { return for_this_replica(value, at); }, at);
}

Function declare_function(Graph& graph, std::string_view name, std::vector<TensorType> arguments,
                          std::vector<TensorType> results, const FunctionOptions& options,
                          Origin at) {
  for (const auto* types : {&arguments, &results})
    for (const TensorType& type : *types)
      if (type.dtype == DType::none)
        throw bad_function("declared", name, at, types == &arguments ? "an argument" : "a result",
                           " has no dtype; give it one, DType::f32 for example");
  if (name.empty()) throw bad_function("declared", "(no name)", at, "a function needs a name");
  return Function(graph.add({.op = "Function",
                             .attrs = {{"arguments", text_of(arguments)},
                                       {"results", text_of(results)},
                                       {"depth_max", options.depth_max}},
                             .name = name},
                            at));
}

Function define_function(Graph& graph, std::string_view name, std::vector<TensorType> arguments,
                         const FunctionBody& body, const FunctionOptions& options, Origin at) {
  Function function = declare_function(graph, name, std::move(arguments), {}, options, at);
  function.define(body, at);
  return function;
}

Function find_function(Graph& graph, std::string_view name, Origin at) {
  std::string known;
  for (const auto& node : graph.nodes()) {
    if (node->op->control != ControlKind::function || !is_pattern(*node)) continue;
    if (node->name == name) return Function({&graph, node->id, 0});
    known += (known.empty() ? "" : ", ") + node->name;
  }
  throw Error(Errc::invalid_argument, "find_function() called at ", at.file, ":", at.line,
              ": the graph has no function \"", name, "\"; it has ",
              known.empty() ? "none" : known);
}

}  // namespace troupe
