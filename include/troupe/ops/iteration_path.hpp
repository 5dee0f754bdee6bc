// The iteration of each loop, and the call of a function, that a node will run in: for ops whose
// values must differ between iterations and calls, as random numbers do. Implemented in
// ops/control_flow/iteration_path.cpp.
#pragma once

#include <vector>

#include "troupe/graph.hpp"

namespace troupe {

// For a node that is added in the open frame: i64 scalars, the outermost first. There is one for
// each loop around it, the number of its iteration from 0 on, preceded by one for the call if the
// node is in the body of a function that calls itself. Empty outside of both. In the body of a
// function that is copied to its calls the path stops at the body; the copies get the rest from
// their surroundings. An op takes them as its last inputs, with the name "path...?", which stands
// for none or more.
std::vector<Output> iteration_path(Graph& graph);

}  // namespace troupe
