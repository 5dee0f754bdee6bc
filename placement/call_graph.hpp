// The graph that a call runs, made of the program's graph: what it needs, and what the passes make
// of that. It happens once, in the process that prepares the call, so all processes run the same.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "placement/passes/rewrite.hpp"
#include "placement/placement.hpp"

namespace troupe {

// Told of each pass that ran: its name, and the call after it.
using OnPass = std::function<void(const char* pass, const CallGraph& after)>;

// A node of the program that does not run as itself in the graph of a call: a pass has left it out,
// or has another node do its work, which its own kernel no longer does. A node that fuse() has made
// a part of another one is none: its kernel still runs.
struct Absorbed {
  int32_t node = -1;  // in the program's graph
  const char* pass = "";
  int32_t into = -1;       // the program's node of that name; -1: none
  const Op* op = nullptr;  // what that one does by now
};

// `placement`: of what prune() says the call needs; the result's nodes have its devices. nullptr:
// they keep their wishes. `passes` off: only what is not needed is left out. `absorbed`, if it is
// given, gets what is, by pass and node. Throws: as prune().
CallGraph make_call_graph(const Graph& graph, const std::vector<Output>& fetches,
                          const std::vector<Output>& feeds, const Placement* placement, bool passes,
                          const OnPass& told = {}, std::vector<Absorbed>* absorbed = nullptr);

// The placement of what runs in such a graph. Requires: `placement` was given to make it.
Placement placement_in(const CallGraph& call, const std::vector<int32_t>& nodes,
                       const Placement& placement);

}  // namespace troupe
