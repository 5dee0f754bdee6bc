// defer_broadcast: the pass that leaves it to readers to broadcast a small value.
#pragma once

#include "placement/passes/rewrite.hpp"

namespace troupe {

// The call without values that only repeat the elements of smaller ones, where those who read them
// can do with the smaller ones (placement/passes/defer_broadcast.cpp). Every bit of what is fetched
// stays.
Rewritten defer_broadcast(CallGraph call);

}  // namespace troupe
