// How a pass changes the graph of a call. A pass reads the graph and says what it wants changed
// (Edits); apply() makes the graph after it. A node that stays keeps its name, device, replica,
// origin and types, so errors and traces speak of what the program made.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "troupe/graph.hpp"
#include "troupe/op.hpp"

namespace troupe {

// What one call runs: a graph of its own, with the nodes that its fetches need. A fed node is
// there, too, with what it reads if not all of it is fed; prune() tells what runs.
struct CallGraph {
  std::unique_ptr<Graph> graph;
  std::vector<Output> fetches, feeds;  // of `graph`
  std::vector<int32_t> origins;        // by node: its number in the program's graph
};

// For each output of a graph where it is now; for a node without outputs, index 0: "it has run".
class OutputMap {
 public:
  explicit OutputMap(const Graph& graph);  // each at its place
  Output& operator[](const Output& output) { return places_[place(output.node, output.index)]; }
  const Output& operator[](const Output& output) const {
    return places_[place(output.node, output.index)];
  }
  std::vector<Output>& all() { return places_; }

 private:
  size_t place(int32_t node, int32_t index) const {
    return first_[static_cast<size_t>(node)] + static_cast<size_t>(index);
  }
  std::vector<size_t> first_;  // by node
  std::vector<Output> places_;
};

// The first pass: the part of `graph` that the call needs, by prune(). `devices`: where its nodes
// have been placed, written into them in full; colocation has done its work then, and goes. Without
// `devices` nodes keep their wishes; one whose partner is not needed takes over the partner's.
// Throws: as prune().
CallGraph call_graph(const Graph& graph, const std::vector<Output>& fetches,
                     const std::vector<Output>& feeds,
                     const std::map<int32_t, std::string>* devices = nullptr);

// What stands against changing a node.
struct NodeRoles {
  bool runs = false;  // what does not is there for a fed node's sake, and nobody placed it
  bool fetched = false;
  bool fed = false;      // one of its outputs: that has the client's value, not the node's
  bool awaited = false;  // a node is to run after it
  bool partner = false;  // a node is to stand with it
  bool free() const { return !fetched && !fed && !awaited && !partner; }
};
std::vector<NodeRoles> roles_of(const CallGraph& call);  // by node

// All numbers are those before the pass.
class Edits {
 public:
  explicit Edits(const CallGraph& call) : graph_(*call.graph), now_(graph_) {}

  // The node as it is by now, and where a reader finds an output by now.
  const Node& node(int32_t id) const {
    const auto it = changed_.find(id);
    return it == changed_.end() ? graph_.node(id) : it->second;
  }
  const Output& now(const Output& output) const { return now_[output]; }

  // Whoever reads the node's only output reads `to`. Requires: the node is free (NodeRoles), and
  // `to` is earlier and of the same type.
  void forward(const Node& node, const Output& to);
  // Whoever reads `node` or runs after it does so with `into`, an earlier node that does the same.
  // Requires: neither is fed, and `node` is not fetched.
  void merge(const Node& node, const Node& into);
  // The same for a node that is fetched while `into` is not: `into` takes over name and origin.
  void merge_and_rename(const Node& node, const Node& into);
  // The node does something else. Requires: its outputs have the same types as before, and what it
  // reads is earlier.
  void change(const Node& node, const Op& op, std::vector<Output> inputs, Attrs attrs);
  // The node runs after `others` instead of after `old`. Requires: they are earlier than it.
  void run_after(const Node& node, int32_t old, const std::vector<int32_t>& others);
  // The node computes `outputs` in one go, its own only one or some of other nodes: who reads these
  // reads it, and moves behind it. Requires: what it reads needs none of them.
  void fuse(const Node& node, const Op& op, std::vector<Output> inputs, Attrs attrs,
            const std::vector<Output>& outputs);

 private:
  friend class GraphEditor;
  const Graph& graph_;
  OutputMap now_;
  std::map<int32_t, Node> changed_;
  std::map<int32_t, int32_t> renamed_;  // node -> the one whose name it has taken
};

struct Rewritten {
  CallGraph call;
  OutputMap moved;  // outputs before the pass -> after it; undefined where nothing is left of one
};
// The graph with these edits, without what nobody needs any more. Nodes stay in their order, but
// for those that read by now what is behind them: what they read moves before them.
Rewritten apply(CallGraph call, Edits edits);

}  // namespace troupe
