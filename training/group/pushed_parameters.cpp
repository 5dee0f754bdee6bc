// Reads the parameters of a graph from its nodes.
#include "training/group/pushed_parameters.hpp"

#include "graph/optimizer.hpp"
#include "graph/parameter_nodes.hpp"
#include "training/group/once_a_step.hpp"

namespace troupe {
namespace {

// True if a gradient is made of rows, element by element, and so is zero elsewhere. The gradient of
// a table that a product reads, too, is not.
bool has_rows(Output gradient) {
  std::set<int32_t> seen;
  std::vector<Output> open = {gradient};
  bool rows = false;
  while (!open.empty()) {
    const Node& node = gradient.graph->node(open.back().node);
    open.pop_back();
    if (properties_of(node).arrangement.rows == Arrangement::Rows::placed) {
      rows = true;
      continue;
    }
    bool made_here = true;
    for (const Output& input : node.inputs) {
      if (input.shape() != gradient.shape()) continue;
      made_here = false;
      if (seen.insert(input.node).second) open.push_back(input);
    }
    if (made_here) return false;
  }
  return rows;
}

}  // namespace

Pushed pushed_in(const Graph& graph) {
  Pushed out;
  for (const auto& node : graph.nodes()) {
    if (!pushes_gradient(*node) || in_function(graph, *node)) continue;
    out.replicas.insert(static_cast<int32_t>(node->replica));
    const auto& name = parameter_name(*node);
    if (!names_rows(*node) && has_rows(node->inputs[0])) out.filled.insert(name);
    const Optimizer found = optimizer_from_text(properties_of(*node).parameter.optimizer(*node));
    const Optimizer& first = out.optimizers.try_emplace(name, found).first->second;
    if (first != found)
      throw Error(Errc::invalid_argument, "parameter ", name, " is trained with ", describe(first),
                  " and, by ", describe(*node), ", with ", describe(found),
                  "; give minimize() the same optimizer in all towers");
  }
  const bool trained = !out.replicas.empty();
  for (const auto& node : graph.nodes()) {
    if (!writes_values(*node) || in_function(graph, *node)) continue;
    const auto& name = parameter_name(*node);
    if (out.optimizers.count(name))
      throw Error(Errc::invalid_argument, "parameter ", name, " is trained, and written by the ",
                  describe(*node),
                  "; gradients alone change what is trained: write to a parameter of its own");
    if (!trained) out.replicas.insert(static_cast<int32_t>(node->replica));
  }
  return out;
}

void check_rate_scale(const Graph& graph, double scale, std::string_view caller) {
  check_rate_scale(pushed_in(graph).optimizers, scale, caller);
}

void check_rate_scale(const std::map<std::string, Optimizer>& optimizers, double scale,
                      std::string_view caller) {
  at_rate_scale({}, scale);  // also for a graph that trains nothing
  for (const auto& [parameter, optimizer] : optimizers) {
    try {
      at_rate_scale(optimizer, scale);
    } catch (const Error& e) {
      throw Error(e.code(), caller, ": parameter ", parameter, ": ", e.what());
    }
  }
}

std::set<int32_t> parameter_nodes(const Graph& graph, const std::vector<int32_t>& nodes) {
  std::set<std::string> names;
  for (int32_t id : nodes) {
    const Node& node = graph.node(id);
    if (reads_parameter(node) || pushes_gradient(node) || writes_values(node))
      names.insert(parameter_name(node));
  }
  std::set<int32_t> out;
  if (names.empty()) return out;
  for (const auto& node : graph.nodes())
    if (reads_parameter(*node) && names.erase(parameter_name(*node))) out.insert(node->id);
  return out;
}

}  // namespace troupe
