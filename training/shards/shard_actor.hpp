// The actor around one Shard: takes pushes, pulls and the orders of the shard's owner, and has the
// files of its checkpoints written and read on the disk thread. When it dies its values are gone.
//
// Owner: the shard service of its process. Thread: an actor; any thread may spawn it.
#pragma once

#include <memory>

#include <caf/all.hpp>

namespace troupe {

class DiskThread;
class Shard;
class Process;
struct CreateShard;

// Throws: Error for an order that makes no shard: slices out of bounds, or given twice.
caf::actor spawn_shard(Process& process, std::shared_ptr<DiskThread> disk, const CreateShard& order,
                       const std::function<void(Shard&)>& on_shard = {});

}  // namespace troupe
