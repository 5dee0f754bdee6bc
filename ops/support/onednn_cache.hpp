// oneDNN's cache of primitives, which the process has once.
#pragma once

namespace troupe {

// Makes it, so that it goes after static objects that are made later: a session in one of them may
// compute until it ends.
void make_onednn_cache();

}  // namespace troupe
