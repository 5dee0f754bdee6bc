// prune: the part of a graph that a call needs.
#include <algorithm>
#include <map>
#include <set>

#include "graph/graph_state.hpp"
#include "graph/op.hpp"
#include "graph/prune.hpp"
#include "graph/op_properties.hpp"

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
  if (node.op->control == ControlKind::function)
    throw Error(Errc::invalid_argument, what, " ", i, " is the ", describe(node),
                "; name what a call of it returns");
  if (node.frame >= 0)
    throw Error(Errc::invalid_argument, what, " ", i, " is the ", describe(node),
                ", which is inside the ", describe(graph.node(node.frame)),
                "; name what the cond, the loop or the call returns");
}

// The nodes that a call of a function needs besides its inputs: the function's returns. The
// function is looked up by name, since a body that calls it may come before its own.
class Returns {
 public:
  explicit Returns(const Graph& graph) : graph_(graph) {}

  int32_t of(const Node& call) {
    if (!looked_) {
      for (const auto& node : graph_.nodes())
        if (node->op->control == ControlKind::result) by_function_[node->frame] = node->id;
      looked_ = true;
    }
    const auto& name = properties_of(call).frame.function(call);
    const Node* function = graph_.find(name);
    if (!function || function->op->control != ControlKind::function)
      throw Error(Errc::invalid_argument, describe(call), ": calls ", name,
                  ", which is no function of this graph");
    const auto found = by_function_.find(function->id);
    if (found == by_function_.end())
      throw Error(Errc::invalid_argument, describe(call), ": calls the ", describe(*function),
                  ", which has no body; define() it before the graph runs");
    return found->second;
  }

 private:
  const Graph& graph_;
  bool looked_ = false;
  std::map<int32_t, int32_t> by_function_;
};

}  // namespace

std::vector<int32_t> prune(const Graph& graph, const std::vector<Output>& fetches,
                           const std::vector<Output>& feeds) {
  std::set<Output, OutputOrder> fed;
  std::map<int32_t, size_t> fed_count;  // node -> number of its outputs that are fed
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
  Returns returns(graph);
  while (!open.empty()) {
    const Node& node = graph.node(open.back());
    open.pop_back();
    if (node.op->control == ControlKind::call) need(returns.of(node));
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

const std::vector<Output>& gradient_targets(const Graph& graph, const Node& node) {
  const Backward* backward = backward_of(graph, node.id);
  return backward ? backward->inputs : node.inputs;
}

}  // namespace troupe
