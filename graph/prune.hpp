// The part of a graph that a call needs.
#pragma once

#include <vector>

#include "troupe/graph.hpp"

namespace troupe {

// The nodes that `fetches` need, by id. Ids grow along every edge, so this is a topological order,
// the same in every process. A fed output is not computed: nothing above it is needed through it. A
// node whose outputs are all fed does not run, and control edges from it are satisfied. Throws:
// Error(invalid_argument) for a fetch or feed that is undefined, of another graph, or fed twice.
std::vector<int32_t> prune(const Graph& graph, const std::vector<Output>& fetches,
                           const std::vector<Output>& feeds = {});

// The outputs that a gradient arriving at `node` goes to: the inputs of its backward function if it
// has one (set_backward), else its own inputs.
const std::vector<Output>& gradient_targets(const Graph& graph, const Node& node);

}  // namespace troupe
