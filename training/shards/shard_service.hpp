// The shards of one process: the service that makes and keeps them, and passes orders on to them. A
// shard that dies is not made anew by the service, since its values are gone: the service tells the
// sessions that use it, and the one that owns its values begins a new epoch and restores it.
//
// Owner: the process's services. Thread: an actor; any thread may spawn it or send to it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include <caf/all.hpp>

#include "training/shards/shard_actor.hpp"

namespace troupe {

class Disk;
class ParameterClient;

// The seams of shards and their clients, for simulations. Production leaves them empty.
struct ShardSeams {
  Disk* disk = nullptr;  // that holds checkpoints
  // Called with each shard that is made here; its address stays valid until its actor ends.
  std::function<void(const std::string& container, Shard&)> on_shard = {};
  // Called with the client of each session that is made here.
  std::function<void(uint64_t session, ParameterClient&)> on_client = {};
};

// A session that has sent a CreateShard: it hears of the shard's death.
using ShardUser = caf::typed_actor<caf::reacts_to<ShardLost>>;
// Orders go to the shard that they name. DropContainer: ends all shards of a container.
using ShardService = ShardOrders::extend<caf::reacts_to<DropContainer>>;

ShardService spawn_shard_service(Process& process, ShardSeams seams = {});

}  // namespace troupe
