// prune: the part of a graph that a call needs.
#include <algorithm>
#include <map>
#include <set>

#include "graph/passes.hpp"
#include "troupe/op.hpp"

namespace troupe {
namespace {

// Fetches may name a node without outputs, by index 0; feeds may not.
void check_output(const Graph& graph, const Output& output, const char* what, size_t i,
                  bool must_have_value) {
  if (!output.defined())
    throw Error(Errc::invalid_argument, what, " ", i,
                " is an undefined Output; pass the result of an op");
  if (output.graph != &graph)
    throw Error(Errc::invalid_argument, what, " ", i, " (", output.name(),
                ") is of another graph than the session's");
  const int32_t nodes = static_cast<int32_t>(graph.nodes().size());
  if (output.node < 0 || output.node >= nodes)
    throw Error(Errc::invalid_argument, what, " ", i, " names node number ", output.node,
                ", but the graph has ", nodes, " nodes");
  const Node& node = graph.node(output.node);
  const size_t count = node.outputs.size();
  if (count == 0 && must_have_value)
    throw Error(Errc::invalid_argument, what, " ", i, " is the ", describe(node),
                ", which has no outputs to feed");
  if (output.index < 0 || output.index >= static_cast<int32_t>(std::max<size_t>(1, count)))
    throw Error(Errc::invalid_argument, what, " ", i, " is output ", output.index, " of the ",
                describe(node), ", which has ", count);
  if (node.frame >= 0)
    throw Error(Errc::invalid_argument, what, " ", i, " is the ", describe(node),
                ", which is inside the ", describe(graph.node(node.frame)),
                "; name what the cond or the loop returns");
}

}  // namespace

std::vector<int32_t> prune(const Graph& graph, const std::vector<Output>& fetches,
                           const std::vector<Output>& feeds) {
  std::set<Output> fed;
  std::map<int32_t, size_t> fed_count;  // node -> how many of its outputs are fed
  for (size_t i = 0; i < feeds.size(); ++i) {
    check_output(graph, feeds[i], "feed", i, true);
    if (!fed.insert(feeds[i]).second)
      throw Error(Errc::invalid_argument, "feed ", i, " (", feeds[i].name(), ") is given twice");
    ++fed_count[feeds[i].node];
  }
  std::vector<bool> needed(graph.nodes().size());
  std::vector<int32_t> open;
  const auto need = [&](int32_t id) {
    if (needed[static_cast<size_t>(id)]) return;
    const auto count = fed_count.find(id);
    if (count != fed_count.end() && count->second == graph.node(id).outputs.size()) return;
    needed[static_cast<size_t>(id)] = true;
    open.push_back(id);
  };
  for (size_t i = 0; i < fetches.size(); ++i) {
    check_output(graph, fetches[i], "fetch", i, false);
    if (!fed.count(fetches[i])) need(fetches[i].node);
  }
  while (!open.empty()) {
    const Node& node = graph.node(open.back());
    open.pop_back();
    for (const Output& input : node.inputs)
      if (!fed.count(input)) need(input.node);
    for (int32_t id : node.control_inputs) need(id);
    if (node.frame >= 0) need(node.frame);
  }
  std::vector<int32_t> ids;
  for (size_t id = 0; id < needed.size(); ++id)
    if (needed[id]) ids.push_back(static_cast<int32_t>(id));
  return ids;
}

}  // namespace troupe
