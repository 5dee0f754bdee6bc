// layout: the pass that moves transposes to the borders of the computation between them.
#pragma once

#include "placement/passes/rewrite.hpp"

namespace troupe {

// The call with the nodes between transposes computed in the layout before them, wherever that
// leaves fewer elements to transpose (placement/passes/layout.cpp). Fetched values keep every bit.
Rewritten layout(CallGraph call);

}  // namespace troupe
