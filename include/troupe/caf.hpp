// For services that run CAF themselves: a session on their own actor system. The only public header
// that names CAF. Implemented in actors/master/session.cpp.
#pragma once

#include <caf/actor_system.hpp>

#include "troupe/session.hpp"

namespace troupe {

// Session::local() on the threads of `system`, which must outlive the session. options.threads: the
// lanes that it offers to one step. The session ends its own actors alone.
Session local_session(Graph& graph, caf::actor_system& system, ProcessOptions options = {});

}  // namespace troupe
