// ShardActorState: the data of a shard's actor, and the requests that it carries out. The shard
// decides; this state finds senders, waits for files, and sends the shard's answers.
//
// Owner: the shard's actor. Thread: the one that holds the ShardLock.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <caf/all.hpp>

#include "actors/async/messages.hpp"
#include "actors/cluster/process.hpp"
#include "training/checkpoints/disk_thread.hpp"
#include "training/shards/first_values.hpp"
#include "training/shards/owed_answers.hpp"
#include "training/shards/senders.hpp"
#include "training/shards/shard.hpp"
#include "training/shards/shard_actor.hpp"
#include "training/shards/shard_owner.hpp"
#include "training/shards/shard_recorder.hpp"

namespace troupe {

// Within one process: the result of file work, brought back to the actor that asked for it.
struct FileWorkDone {
  std::function<void()> go;
};

}  // namespace troupe
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::FileWorkDone)

namespace troupe {

using FileWaiter = caf::typed_actor<caf::reacts_to<FileWorkDone>>;
using FilingShard = ShardHandle::extend_with<FileWaiter>;  // with the messages to itself

// An answer that is sent after the ShardLock is free.
struct Outgoing {
  ParameterDoor to;
  caf::message message;
};

struct ShardActorState {
  const char* name = "shard";  // how CAF and our logs call this actor
  caf::local_actor* self = nullptr;
  Process* process = nullptr;
  std::shared_ptr<DiskThread> disk;
  std::unique_ptr<Shard> shard;
  Senders senders;
  ShardOwner owner;
  OwedAnswers owed;
  std::string unread;  // the last logged text of a checkpoint that could not be read
  struct {
    uint64_t number = 0;
    std::shared_ptr<ShardImage> image;  // until it is written, or another one replaces it
  } captured;
  int writes = 0;  // files that the disk has not taken yet
  FirstValues initial;
  ShardRecorder recorder;
  bool* open = nullptr;       // of the actor: true while callers may use `shard`
  std::exception_ptr thrown;  // by a caller's request; the actor dies of it

  ~ShardActorState() {
    if (open) *open = false;
  }
  // A request that threw may have changed half of the shard: nothing uses it after that.
  void check() const {
    if (thrown) std::rethrow_exception(thrown);
  }
  // An error for an order of another process than the owner's, unless sessions share the shard.
  caf::error check_order() const;
  uint64_t owe() {
    check();
    return owed.owe(self->make_response_promise());
  }
  uint64_t sender();
  // Settles whose the shard is, and which session trains which of its replicas.
  caf::result<ShardDescription> own(const CreateShard& m);
  void down(const caf::down_msg& m);  // a sender, or a session
  // The one way of pushes and pulls to the shard. `from`: the sender's number; takes the gradient.
  void handle(ShardRequest& request, uint64_t from, ShardActions& out);
  // Removes from `actions` the answers to other senders than `here`, as messages.
  std::vector<Outgoing> others(ShardActions& actions, uint64_t here);
  void send(ShardActions& actions);
  void take(ShardRequest request);  // a message
  caf::result<caf::unit_t> hold(const CaptureShard& m);
  caf::result<ShardFile> write(const WriteShard& m);
  caf::result<caf::unit_t> begin_epoch(const BeginEpoch& m);
  using Replay = decltype(ShardOrder::replay);
  // Pays `number` when the epoch has begun, or with the reason why it cannot.
  void start_epoch(const BeginEpoch& m, uint64_t number, Replay replay);
  void restore(const BeginEpoch& m, uint64_t number, Replay replay);
  // Order, rule, replicas and rate scale.
  caf::error set_terms(const BeginEpoch& m, Replay replay);
  void read(const std::string& what, uint64_t number, std::function<std::function<void()>()> job);
  caf::result<caf::unit_t> set_rate_scale(const SetRateScale& m);
  caf::result<caf::unit_t> change_rule(const ChangeRule& m);
  caf::result<caf::unit_t> set_initial(const SetInitial& m);
  caf::result<caf::unit_t> give_initial(const GiveInitial& m);
  caf::result<caf::unit_t> set_values(uint64_t epoch, uint32_t slice, Tensor values);
  ShardDescription describe() const;
  void warn_of(const BadGradient& bad);
};

// The replicas in ascending order, each at that step.
std::vector<ReplicaProgress> replicas_at(const std::vector<int32_t>& replicas, int64_t next_step);

}  // namespace troupe
