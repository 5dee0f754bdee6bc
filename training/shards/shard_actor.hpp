// The actor around one Shard: it takes pushes, pulls and the requests of the shard's owner; the
// disk thread writes and reads the files of its checkpoints. When it dies its values are gone.
//
// Owner: the shard service of its process. Thread: an actor; any thread may spawn it.
#pragma once

#include <memory>

#include <caf/all.hpp>

namespace troupe {

class DiskThread;
class LocalShard;
class Shard;
class Process;
struct CreateShard;

// Throws: Error for an invalid request: slices out of bounds, or given twice.
caf::actor spawn_shard(Process& process, std::shared_ptr<DiskThread> disk, const CreateShard& order,
                       const std::function<void(Shard&)>& on_shard = {});

// Null unless `actor` is one of spawn_shard() in this process. Valid as long as the actor's
// handles.
LocalShard* local_shard(const caf::actor& actor);

}  // namespace troupe
