// The shards of one process: the service that makes and keeps them, and passes orders on to them.
//
// Owner: the process's services. A shard that dies is not made anew by itself, since its values are
// gone: the service tells the sessions that use it, and the one that owns its values begins a new
// epoch and restores it.
#pragma once

#include <caf/all.hpp>

namespace troupe {

class Process;

caf::actor spawn_shard_service(Process& process);
}  // namespace troupe
