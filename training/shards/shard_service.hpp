// The shards of one process: the service that makes and keeps them, and passes orders on to them.
//
// Owner: the process's services. A shard that dies is not made anew by itself, since its values are
// gone: the service tells the sessions that use it, and the one that owns its values begins a new
// epoch and restores it.
#pragma once

#include <functional>

#include <caf/all.hpp>

namespace troupe {

class Disk;
class Process;
class Shard;

// Between shards and the world, for simulations. Left out: production's.
struct ShardSeams {
  Disk* disk = nullptr;  // where checkpoints are
  // Sees each shard that is made here; the shard stays where it is until its actor ends.
  std::function<void(Shard&)> on_shard = {};
};

caf::actor spawn_shard_service(Process& process, ShardSeams seams = {});

}  // namespace troupe
