// Passes over a graph that never change a node: they return what to run or what to read instead.
#pragma once

#include <map>
#include <vector>

#include "troupe/graph.hpp"
#include "troupe/op.hpp"

namespace troupe {

// The nodes that `fetches` need, by id. Ids grow along every edge, so this is a topological order,
// and the same one in every process. A fed output is not computed: nothing above it is needed
// through it. A node all of whose outputs are fed does not run, and control edges from it are
// satisfied. Throws: Error(invalid_argument) for a fetch or feed that is undefined, of another
// graph, or fed twice.
std::vector<int32_t> prune(const Graph& graph, const std::vector<Output>& fetches,
                           const std::vector<Output>& feeds = {});

// Which of `nodes` (of prune) compute the same as an earlier one: same op, inputs, attributes,
// control inputs, device wish and colocation, and not stateful. Read the mapped output instead.
// Maps only what changes; chains are already followed.
std::map<Output, Output> common_subexpressions(const Graph& graph,
                                               const std::vector<int32_t>& nodes);

}  // namespace troupe
