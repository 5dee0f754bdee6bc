// Warnings about the graph of a training call.
#include "training/group/training_warnings.hpp"

#include <algorithm>
#include <set>

#include "graph/base/words.hpp"
#include "graph/graph_state.hpp"
#include "graph/parameter_nodes.hpp"

namespace troupe {
namespace {

using Names = std::set<std::string>;

// The parameters that the nodes push to or write.
Names changed_by(const Graph& graph, const std::vector<int32_t>& nodes) {
  Names names;
  for (const int32_t id : nodes)
    if (const Node& node = graph.node(id); pushes_gradient(node) || writes_values(node))
      names.insert(parameter_name(node));
  return names;
}

// The parameters whose values or updates some node of the graph uses.
Names used_in(const Graph& graph) {
  Names names;
  for (const auto& node : graph.nodes()) {
    if (pushes_gradient(*node) || writes_values(*node)) names.insert(parameter_name(*node));
    for (const Output& input : node->inputs)
      if (const Node& from = graph.node(input.node); reads_parameter(from))
        names.insert(parameter_name(from));
  }
  return names;
}

}  // namespace

std::vector<std::string> training_warnings(const Graph& graph, const std::vector<int32_t>& nodes) {
  if (std::none_of(nodes.begin(), nodes.end(),
                   [&](int32_t id) { return pushes_gradient(graph.node(id)); }))
    return {};
  std::vector<std::string> lines;
  const Names changed = changed_by(graph, nodes);
  Names still;
  for (const auto& [average, value] : graph.state().averages)
    if (!changed.count(average) && std::binary_search(nodes.begin(), nodes.end(), value))
      still.insert(average);
  for (const std::string& average : still)
    lines.push_back(
        detail::concat("a training step leaves a running average as it is, pass the update through "
                       "Model::with_updates(): parameter=",
                       average));
  const Names used = used_in(graph);
  Names unused;
  for (const auto& node : graph.nodes())
    if (reads_parameter(*node) && !used.count(parameter_name(*node)))
      unused.insert(parameter_name(*node));
  for (const std::string& name : unused) {
    const std::string nearest = did_you_mean(name, used);
    lines.push_back(detail::concat("no node reads a parameter, so its values have no effect",
                                   nearest,
                                   nearest.empty() ? ": parameter=" : " parameter=", name));
  }
  return lines;
}

}  // namespace troupe
