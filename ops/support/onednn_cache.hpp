// oneDNN's cache of primitives, one per process.
#pragma once

namespace troupe {

// Creates the cache now, so that it is destroyed after static objects constructed later: one of
// them may hold a session that computes until it ends.
void make_onednn_cache();

}  // namespace troupe
