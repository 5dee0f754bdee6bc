// A call changes a parameter once per training step of each replica: shards identify a push by
// parameter, replica and step, and take a second one for a repetition. So a call that could push
// twice is refused when it is prepared.
// Owner: none, plain functions. Thread: any.
#pragma once

#include <cstdint>
#include <vector>

#include "troupe/graph.hpp"

namespace troupe {

// True in the body of a function: calls run copies of its nodes, outside of it.
bool in_function(const Graph& graph, const Node& node);

// Throws: Error(invalid_argument) for a push or a write among `nodes` that is in a loop, and for
// two pushes to one parameter by one replica, unless they are in different branches of one choice.
// The text names both, the function whose body they come from, and the remedy.
void check_once_a_step(const Graph& graph, const std::vector<int32_t>& nodes);

}  // namespace troupe
