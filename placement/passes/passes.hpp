// What is found out about a graph before it runs, and what a call's graph is changed to. Each pass
// is one file, and a pure function: it reads the graph of a call (placement/passes/rewrite.hpp) and
// says what it wants changed. All leave every bit of what is fetched, and these alone:
//   - nodes that run anew in every step (Op::stateful): parameters, but for pull_rows; pushes, but
//     for push_rows_once; random numbers, which are keyed by the node's name; and the program's
//     placeholders,
//   - what is fed, which has the client's value; the name of what is fetched; the order that
//     control edges ask for; the device of each node.
#pragma once

#include <functional>
#include <vector>

#include "placement/passes/rewrite.hpp"
#include "troupe/graph.hpp"

namespace troupe {

// What a node computes from these inputs; empty if it cannot be found out now, or fails.
using Evaluate =
    std::function<std::vector<Tensor>(const Node& node, const std::vector<Tensor>& inputs)>;

// Nodes of a host whose inputs are constants become constants
// (placement/passes/fold_constants.cpp).
Edits fold_constants(const CallGraph& call, const Evaluate& evaluate);
// Nodes that do nothing with their input are left out (placement/passes/simplify.cpp).
Edits simplify(const CallGraph& call);
// Of nodes that compute the same on the same device one stays (placement/passes/merge_common.cpp).
Edits merge_common(const CallGraph& call);
// Of a parameter that is only gathered from, the rows are pulled (placement/passes/pull_rows.cpp).
Edits pull_rows(const CallGraph& call);
// A row that the gradient of a sum repeats is pushed once (placement/passes/push_rows_once.cpp).
Edits push_rows_once(const CallGraph& call);
// A backward node becomes one with the forward node whose inputs it reads
// (placement/passes/join.cpp).
Edits join(const CallGraph& call);
// Element-wise nodes become one node that passes over memory once (placement/passes/fuse.cpp).
Edits fuse(const CallGraph& call);
// The node does the work of that one: it is it, or fuse() has made it of it and of others.
bool does_work_of(const Node& node, const std::string& name);

}  // namespace troupe
