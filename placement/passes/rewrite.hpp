// How a pass changes the graph of a call. A pass reads the graph and returns the changes it wants
// (Edits), which make the new graph. A node that stays keeps its name, device, replica, origin
// and types, so errors and traces name the program's nodes.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "troupe/graph.hpp"
#include "troupe/op.hpp"

namespace troupe {

// The graph that one call runs: a separate graph with the nodes that its fetches need. Fed nodes
// are in it, too, with their inputs unless they are fed completely; prune() tells which nodes run.
struct CallGraph {
  std::unique_ptr<Graph> graph;
  std::vector<Output> fetches, feeds;  // of `graph`
  std::vector<int32_t> origins;        // by node: its id in the program's graph
};

// For each output of a graph, its present place; for a node without outputs, index 0: "it has run".
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

// The first pass: the part of `graph` that the call needs, by prune(). `devices`: the placement of
// its nodes, which is written into them in full; colocation has then served its purpose and is
// dropped. Without `devices` nodes keep their requested devices; a node whose partner is not needed
// takes over the partner's. Throws: as prune().
CallGraph call_graph(const Graph& graph, const std::vector<Output>& fetches,
                     const std::vector<Output>& feeds,
                     const std::map<int32_t, std::string>* devices = nullptr);

// Adds a node NAME/`part` to the graph of the call, on behalf of the node `of` and in its place.
Output add_part(CallGraph& call, const Node& of, NodeSpec spec, const std::string& part);

// The reasons against changing a node.
struct NodeRoles {
  bool runs = false;  // false: it is here only for a fed node, and has not been placed
  bool fetched = false;
  bool fed = false;      // one of its outputs is fed: that has the client's value, not the node's
  bool awaited = false;  // another node runs after it
  bool partner = false;  // another node is colocated with it
  bool free() const { return !fetched && !fed && !awaited && !partner; }
};
std::vector<NodeRoles> roles_of(const CallGraph& call);  // by node

struct Rewritten {
  CallGraph call;
  OutputMap moved;  // outputs before the pass -> after it; undefined for removed ones
};

// All ids are those before the pass.
class Edits {
 public:
  explicit Edits(const CallGraph& call) : graph_(*call.graph), now_(graph_) {}

  // The present state of a node, and the present place of an output.
  const Node& node(int32_t id) const {
    const auto it = changed_.find(id);
    return it == changed_.end() ? graph_.node(id) : it->second;
  }
  const Output& now(const Output& output) const { return now_[output]; }

  // Readers of the node's only output read `to` instead. Requires: the node is free (NodeRoles),
  // and `to` is earlier and of the same type.
  void forward(const Node& node, const Output& to);
  // Readers of `node` and nodes that run after it use `into` instead, an earlier node that does the
  // same work. Requires: neither is fed, and `node` is not fetched.
  void merge(const Node& node, const Node& into);
  // The same for a fetched node when `into` is not fetched: `into` takes over name and origin.
  void merge_and_rename(const Node& node, const Node& into);
  // Changes the work of the node. Requires: its outputs have the same types as before, and its
  // inputs are earlier.
  void change(const Node& node, const Op& op, std::vector<Output> inputs, Attrs attrs);
  // The node runs after `others` instead of after `old`. Requires: `others` are earlier than the
  // node.
  void run_after(const Node& node, int32_t old, const std::vector<int32_t>& others);
  // The node computes `outputs`, which are its own only one or some of other nodes. Readers of
  // these read it, and move after it. Requires: its inputs need none of them.
  void fuse(const Node& node, const Op& op, std::vector<Output> inputs, Attrs attrs,
            const std::vector<Output>& outputs);

  // The call with these edits, without nodes that are no longer needed. Nodes keep their order,
  // except that nodes read by an earlier one move before it. Requires: the call is that of the
  // constructor.
  Rewritten apply(CallGraph call) &&;

 private:
  const Graph& graph_;
  OutputMap now_;
  std::map<int32_t, Node> changed_;
  std::map<int32_t, int32_t> renamed_;  // node -> the node whose name it has taken
};

}  // namespace troupe
