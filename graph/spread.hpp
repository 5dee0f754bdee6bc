// spread: the pass that leaves it to readers to spread a small value over a large one.
#pragma once

#include "graph/rewrite.hpp"

namespace troupe {

// The call without values that only repeat the elements of smaller ones, where those who read them
// can do with the smaller ones (graph/spread.cpp). Every bit of what is fetched stays.
Rewritten spread(CallGraph call);

}  // namespace troupe
