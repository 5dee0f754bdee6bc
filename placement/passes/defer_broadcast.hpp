// defer_broadcast: the pass that leaves the broadcast of a small value to its readers.
#pragma once

#include "placement/passes/rewrite.hpp"

namespace troupe {

// The call without values that only repeat the elements of smaller ones, if their readers can use
// the smaller ones (placement/passes/defer_broadcast.cpp). Fetched values keep every bit.
Rewritten defer_broadcast(CallGraph call);

}  // namespace troupe
