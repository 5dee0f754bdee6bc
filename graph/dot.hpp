// to_dot() with a line more on some nodes: what somebody has measured, for instance.
#pragma once

#include <map>
#include <string>

#include "troupe/graph.hpp"

namespace troupe {

// `notes`: by node. Else as the public one.
std::string to_dot(const Graph& graph, const std::map<int32_t, std::string>& device_of,
                   const std::map<int32_t, std::string>& notes);

}  // namespace troupe
