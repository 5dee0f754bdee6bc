// The passes that rewrite a call's graph before it runs. Each pass is one file and a pure function:
// it reads the graph of a call (placement/passes/rewrite.hpp) and returns the changes it wants. All
// of them keep every bit of fetched values, and leave these alone:
//   - nodes that run anew in every step (Op::stateful): parameters, except in pull_rows; pushes,
//     except in push_rows_once; random numbers, which are keyed by the node's name; and the
//     program's placeholders,
//   - fed nodes, which have the client's value; the names of fetched nodes; the order that
//     control edges require; the device of each node.
#pragma once

#include <functional>
#include <vector>

#include "placement/passes/rewrite.hpp"
#include "troupe/graph.hpp"

namespace troupe {

// The values that a node computes from these inputs; empty if it cannot be evaluated now, or fails.
using Evaluate =
    std::function<std::vector<Tensor>(const Node& node, const std::vector<Tensor>& inputs)>;

// Host nodes whose inputs are constants become constants (placement/passes/fold_constants.cpp).
Edits fold_constants(const CallGraph& call, const Evaluate& evaluate);
// Nodes that do nothing with their input are removed (placement/passes/simplify.cpp).
Edits simplify(const CallGraph& call);
// Nodes that compute the same value on the same device are merged
// (placement/passes/merge_common.cpp).
Edits merge_common(const CallGraph& call);
// If a parameter is only gathered from, its rows are pulled (placement/passes/pull_rows.cpp).
Edits pull_rows(const CallGraph& call);
// A row that the gradient of a sum repeats is pushed once (placement/passes/push_rows_once.cpp).
Edits push_rows_once(const CallGraph& call);
// A backward node becomes one with the forward node whose inputs it reads
// (placement/passes/join.cpp).
Edits join(const CallGraph& call);
// Element-wise nodes become one node that passes over memory once (placement/passes/fuse.cpp).
Edits fuse(const CallGraph& call);
// True if the node does the work of the node `name`: it is that node, or a fused node that contains
// it.
bool does_work_of(const Node& node, const std::string& name);

}  // namespace troupe
