// What is found out about a graph before it runs, and what a call's graph is changed to. Each pass
// is one file, and a pure function: it reads the graph of a call (graph/rewrite.hpp) and says what
// it wants changed. All leave every bit of what is fetched, and these alone:
//   - nodes that run anew in every step (Op::stateful): parameters, but for pull_rows; pushes, but
//     for push_rows_once; random numbers, which are keyed by the node's name; and the program's
//     placeholders,
//   - what is fed, which has the client's value; the name of what is fetched; the order that
//     control edges ask for; the device of each node.
#pragma once

#include <functional>
#include <vector>

#include "graph/rewrite.hpp"
#include "troupe/graph.hpp"

namespace troupe {

// The nodes that `fetches` need, by id. Ids grow along every edge, so this is a topological order,
// and the same one in every process. A fed output is not computed: nothing above it is needed
// through it. A node all of whose outputs are fed does not run, and control edges from it are
// satisfied. Throws: Error(invalid_argument) for a fetch or feed that is undefined, of another
// graph, or fed twice.
std::vector<int32_t> prune(const Graph& graph, const std::vector<Output>& fetches,
                           const std::vector<Output>& feeds = {});

// What a node computes from these inputs; empty if it cannot be found out now, or fails.
using Evaluate =
    std::function<std::vector<Tensor>(const Node& node, const std::vector<Tensor>& inputs)>;

// Nodes of a host whose inputs are constants become constants (graph/fold_constants.cpp).
Edits fold_constants(const CallGraph& call, const Evaluate& evaluate);
// Nodes that do nothing with their input are left out (graph/simplify.cpp).
Edits simplify(const CallGraph& call);
// Of nodes that compute the same on the same device one stays (graph/merge_common.cpp).
Edits merge_common(const CallGraph& call);
// Of a parameter that is only gathered from, the rows are pulled (graph/pull_rows.cpp).
Edits pull_rows(const CallGraph& call);
// A row that the gradient of a sum repeats is pushed once (graph/push_rows_once.cpp).
Edits push_rows_once(const CallGraph& call);
// A backward node becomes one with the forward node whose inputs it reads (graph/join.cpp).
Edits join(const CallGraph& call);
// Element-wise nodes become one node that passes over memory once (graph/fuse.cpp).
Edits fuse(const CallGraph& call);
// The node does the work of that one: it is it, or fuse() has made it of it and of others.
bool does_work_of(const Node& node, const std::string& name);

// What a gradient that arrives at `node` is passed on to: the inputs of its backward function
// where it has one (Graph::set_backward), else its own.
const std::vector<Output>& gradient_targets(const Graph& graph, const Node& node);

}  // namespace troupe
