// layout: the pass that moves transposes to the borders of what is computed between them.
#pragma once

#include "placement/passes/rewrite.hpp"

namespace troupe {

// The call with what stands between transposes computed in the layout before them, wherever that
// leaves fewer elements to move (placement/passes/layout.cpp). Every bit of what is fetched stays.
Rewritten layout(CallGraph call);

}  // namespace troupe
