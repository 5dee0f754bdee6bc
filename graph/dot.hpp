// to_dot() with an additional line on some nodes, such as a measured time.
#pragma once

#include <map>
#include <string>

#include "troupe/graph.hpp"

namespace troupe {

// `notes`: by node. Otherwise as the public to_dot().
std::string to_dot(const Graph& graph, const std::map<int32_t, std::string>& device_of,
                   const std::map<int32_t, std::string>& notes);

}  // namespace troupe
