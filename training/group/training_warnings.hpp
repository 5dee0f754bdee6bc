// Warnings about the graph of a training call: what is built right, but hardly meant. Owner: none,
// they are functions. Thread: any.
#pragma once

#include <string>
#include <vector>

#include "troupe/graph.hpp"

namespace troupe {

// For a call that pushes gradients and runs `nodes`, as log lines: running averages that it
// computes with and does not move, and parameters of the graph that nothing reads. Empty for
// another call.
std::vector<std::string> training_warnings(const Graph& graph, const std::vector<int32_t>& nodes);

}  // namespace troupe
