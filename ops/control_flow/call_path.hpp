// The path of a call: identifies the calls around a node, and keys random draws in recursive
// functions.
#pragma once

#include "troupe/graph.hpp"

namespace troupe {

// The path of the call that runs the open frame. Implemented in ops/control_flow/call_path.cpp.
Output call_path(Graph& graph, Origin at);

}  // namespace troupe
