// What a call does to parameters counts once in a step of each replica: shards know a push by its
// parameter, replica and step, and take a second one for the first one sent again. So a call in
// which there could be a second one is refused when it is prepared.
#pragma once

#include <cstdint>
#include <vector>

#include "troupe/graph.hpp"

namespace troupe {

// In the body of a function: what runs of that is copies, outside of it.
bool in_function(const Graph& graph, const Node& node);

// Throws: Error(invalid_argument) for a push or a write of `nodes` that is in a loop, and for two
// pushes to one parameter for one replica, unless they are in different branches of one choice. The
// text names both, the function whose body they are from, and the remedy.
void check_once_a_step(const Graph& graph, const std::vector<int32_t>& nodes);

}  // namespace troupe
