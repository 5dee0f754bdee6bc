// What a node multiplies and adds, as its op says (Op::flops). Implemented in graph/flops.cpp.
#pragma once

#include <cstdint>

#include "troupe/op.hpp"

namespace troupe {

// The flops of a firing whose shapes the graph knows; 0 where it does not, or the op does not say.
int64_t known_flops(const Node& node);

}  // namespace troupe
