// The graph that a call runs: the part of the program's graph that the call needs, rewritten by the
// passes. It is made once, in the process that prepares the call, so all processes run the same
// graph.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "placement/passes/rewrite.hpp"
#include "placement/placement.hpp"

namespace troupe {

// Called after each pass with its name and the call after it.
using OnPass = std::function<void(const char* pass, const CallGraph& after)>;

// A node of the program that does not run as itself in the graph of a call: a pass has removed it,
// or has merged its work into another node, so its own kernel no longer runs. A node that fuse()
// has made a part of another one is not absorbed: its kernel still runs.
struct Absorbed {
  int32_t node = -1;  // in the program's graph
  const char* pass = "";
  int32_t into = -1;       // the program's node that has its work; -1: none
  const Op* op = nullptr;  // the present op of that node
};

// `placement` covers the nodes that prune() says the call needs; the result's nodes have its
// devices. nullptr: they keep the devices they request. `passes` off: the graph is only pruned.
// `absorbed`, if given, receives the absorbed nodes by pass and node. Throws: as prune().
CallGraph make_call_graph(const Graph& graph, const std::vector<Output>& fetches,
                          const std::vector<Output>& feeds, const Placement* placement, bool passes,
                          const OnPass& told = {}, std::vector<Absorbed>* absorbed = nullptr);

// The placement of the nodes that run in such a graph. Requires: it was made with `placement`.
Placement placement_in(const CallGraph& call, const std::vector<int32_t>& nodes,
                       const Placement& placement);

}  // namespace troupe
