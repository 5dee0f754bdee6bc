// common_subexpressions: which nodes compute what an earlier one has computed already. Nodes are
// compared by a text of all that their value depends on, with inputs already replaced, so that
// chains of equal nodes fold in one pass.
#include <set>

#include "graph/attr_text.hpp"
#include "graph/passes.hpp"

namespace troupe {
namespace {

std::string key_of(const Node& node, const std::map<Output, Output>& replaced) {
  const auto output = [&](const Output& o) {
    const auto it = replaced.find(o);
    const Output& read = it == replaced.end() ? o : it->second;
    return detail::concat(" ", read.node, ":", read.index);
  };
  std::string key = node.op->name;
  for (const Output& input : node.inputs) key += output(input);
  std::set<int32_t> controls(node.control_inputs.begin(), node.control_inputs.end());
  for (int32_t id : controls) key += detail::concat(" ^", id);
  for (const auto& [name, value] : node.attrs) key += " " + name + "=" + exact_text(value);
  return key + " on " + node.device + " with " + node.colocate_with;
}

}  // namespace

std::map<Output, Output> common_subexpressions(const Graph& graph,
                                               const std::vector<int32_t>& nodes) {
  Graph* owner = const_cast<Graph*>(&graph);  // an Output names its graph; nothing is written
  std::map<Output, Output> replaced;
  std::map<std::string, int32_t> first;
  for (int32_t id : nodes) {
    const Node& node = graph.node(id);
    if (node.op->stateful || node.outputs.empty()) continue;
    const auto [it, is_first] = first.emplace(key_of(node, replaced), id);
    if (is_first) continue;
    for (int32_t i = 0; i < static_cast<int32_t>(node.outputs.size()); ++i)
      replaced[{owner, id, i}] = {owner, it->second, i};
  }
  return replaced;
}

}  // namespace troupe
