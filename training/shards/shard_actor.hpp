// The actor around one Shard: it takes pushes, pulls and the requests of the shard's owner; the
// disk thread writes and reads the files of its checkpoints. When it dies its values are gone.
//
// Owner: the shard service of its process. Thread: an actor; any thread may spawn it.
#pragma once

#include <memory>

#include <caf/all.hpp>

#include "actors/async/messages.hpp"
#include "training/parameters/give_initial.hpp"
#include "training/parameters/local_shard.hpp"
#include "training/parameters/messages.hpp"

namespace troupe {

class DiskThread;
class Shard;
class Process;

// The orders to a shard, which come through its service.
using ShardOrders = caf::typed_actor<
    caf::replies_to<CreateShard>::with<ShardDescription>,    // makes it, or describes it as it is
    caf::replies_to<DescribeShard>::with<ShardDescription>,  // describes it
    caf::replies_to<CountPushes>::with<PushesCounted>,       // counts pushes by replica and slice
    caf::replies_to<SetInitial>::with<caf::unit_t>,          // takes a piece of first values
    caf::replies_to<GiveInitial>::with<caf::unit_t>,         // takes all first values of a slice
    caf::replies_to<BeginEpoch>::with<caf::unit_t>,          // is empty again, or restored
    caf::replies_to<SetRateScale>::with<caf::unit_t>,        // has other learning rates
    caf::replies_to<ChangeRule>::with<caf::unit_t>,          // goes on with another rule
    caf::replies_to<CaptureShard>::with<caf::unit_t>,        // holds its state of a step
    caf::replies_to<WriteShard>::with<ShardFile>,            // writes the held state
    caf::replies_to<AskWaits>::with<Waits>>;                 // tells its waits
using ShardHandle = ShardOrders::extend_with<ShardDoor>;

// The refusal of an order that nobody could own or take back.
inline Error without_sender() { return Error(Errc::invalid_argument, "an order without a sender"); }

// Throws: Error for an invalid request: slices out of bounds, or given twice.
ShardHandle spawn_shard(Process& process, std::shared_ptr<DiskThread> disk,
                        const CreateShard& order, const std::function<void(Shard&)>& on_shard = {});

// Null unless `actor` is one of spawn_shard() in this process. Valid as long as the actor's
// handles.
LocalShard* local_shard(const ShardDoor& actor);

}  // namespace troupe
