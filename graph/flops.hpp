// The floating-point operations of a node, by its op (Op::flops). Implemented in graph/flops.cpp.
#pragma once

#include <cstdint>

#include "troupe/op.hpp"

namespace troupe {

// The flops of a firing if the graph knows its shapes and the op has a count; otherwise 0.
int64_t known_flops(const Node& node);

}  // namespace troupe
