// The path of a call: the numbers of the calls around it, which key random draws in recursive
// functions.
#pragma once

#include "troupe/graph.hpp"

namespace troupe {

// The path of a call in the open frame. Implemented in ops/control_flow/call_path.cpp.
Output call_path(Graph& graph, Origin at);

}  // namespace troupe
