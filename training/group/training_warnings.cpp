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

TrainingWarnings training_warnings(const Graph& graph, const std::vector<int32_t>& nodes) {
  TrainingWarnings out;
  if (std::none_of(nodes.begin(), nodes.end(),
                   [&](int32_t id) { return pushes_gradient(graph.node(id)); }))
    return out;
  const Names changed = changed_by(graph, nodes), used = used_in(graph);
  Names still, unread;
  for (const auto& [average, value] : graph.state().averages)
    if (!changed.count(average) && std::binary_search(nodes.begin(), nodes.end(), value))
      still.insert(average);
  out.still.assign(still.begin(), still.end());
  for (const auto& node : graph.nodes())
    if (reads_parameter(*node) && !used.count(parameter_name(*node)))
      unread.insert(parameter_name(*node));
  for (const std::string& name : unread)
    out.unread.push_back(
        {name, *std::min_element(used.begin(), used.end(), [&](const auto& a, const auto& b) {
           return edit_distance(name, a) < edit_distance(name, b);
         })});
  return out;
}

}  // namespace troupe
