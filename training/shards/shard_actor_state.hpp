// ShardActorState: the data of a shard's actor, and the orders that it carries out: pushes, files,
// first values and epochs. The shard decides; this state counts, routes its answers and waits.
//
// Owner: the shard's actor. Thread: the one that runs the actor, or calls it in its turn.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <caf/all.hpp>

#include "actors/async/messages.hpp"
#include "actors/cluster/process.hpp"
#include "training/checkpoints/disk_thread.hpp"
#include "training/parameters/give_initial.hpp"
#include "training/parameters/messages.hpp"
#include "training/shards/senders.hpp"
#include "training/shards/shard.hpp"

namespace troupe {

// Within one process: the result of file work, brought back to the actor that asked for it.
struct FileWorkDone {
  std::function<void()> go;
};

}  // namespace troupe
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::FileWorkDone)

namespace troupe {

// An answer that waits until the shard's turn is over.
struct Outgoing {
  caf::actor to;
  caf::message message;
};

struct ShardActorState {
  const char* name = "shard";  // how CAF and our logs call this actor
  caf::event_based_actor* self = nullptr;
  Process* process = nullptr;
  std::shared_ptr<DiskThread> disk;
  std::unique_ptr<Shard> shard;
  Senders senders;
  caf::actor_addr creator;  // whose CreateShard made it
  // Answers that come later, by number. Whoever waits for one when the shard dies is told so.
  std::map<uint64_t, caf::response_promise> owed;
  uint64_t next_owed = 1;
  std::string unread;                     // the last word in the log of a checkpoint that is
  std::map<uint64_t, uint64_t> captures;  // asked of the shard, by what is owed for them
  uint64_t capture = 0;                   // of `captured`
  std::shared_ptr<ShardImage> captured;   // until it is written, or another one is
  struct Traffic {
    std::string name;  // of the slice
    int64_t pulled_bytes = 0, pushed_bytes = 0;
  };
  std::map<uint32_t, Traffic> traffic;  // by slice, since the shard was made
  struct FirstValues {
    Tensor values;
    int64_t bytes = 0;  // have come, from the start on
  };
  std::map<uint32_t, FirstValues> initial;  // by slice, until they are whole

  bool* open = nullptr;       // whether `shard` is there for calls
  std::exception_ptr thrown;  // in a call, of which the actor is to die

  ~ShardActorState() {
    if (open) *open = false;
    for (auto& [number, promise] : owed)
      promise.deliver(to_caf(Errc::peer_lost, "the shard died before it had answered"));
  }
  void check() const {  // half changed by a call that threw, the shard meets nothing more
    if (thrown) std::rethrow_exception(thrown);
  }
  uint64_t owe() {
    check();
    owed[next_owed] = self->make_response_promise();
    return next_owed++;
  }
  template <class Answer>
  void pay(uint64_t number, Answer&& answer) {
    owed.extract(number).mapped().deliver(std::forward<Answer>(answer));
  }
  uint64_t sender() {
    check();
    const auto& who = self->current_sender();
    if (!who) return 0;
    const Senders::Number n = senders.number(who);
    if (n.fresh) self->monitor(caf::actor_cast<caf::actor>(who));
    if (n.forgotten != 0) shard->forget(n.forgotten);
    return n.number;
  }
  template <class M>
  void push(M& m, int64_t bytes) {
    ShardActions out;
    push(m, bytes, sender(), out);
    route(out);
  }
  template <class M>
  void push(M& m, int64_t bytes, uint64_t from, ShardActions& out);  // takes the gradient
  void route(ShardActions& actions);
  std::vector<Outgoing> others(ShardActions& actions, uint64_t here);
  void count(const Pulled& pulled);
  void snapshot_done(SnapshotDone done);
  caf::result<ShardFile> write(const WriteShard& m);
  caf::result<caf::unit_t> begin_epoch(const BeginEpoch& m);
  caf::error set_rule(const BeginEpoch& m);
  caf::result<caf::unit_t> set_initial(const SetInitial& m);
  caf::result<caf::unit_t> give_initial(const GiveInitial& m);
  ShardDescription describe() const;
};

inline int64_t bytes_of(const Tensor& tensor) { return tensor.defined() ? tensor.byte_size() : 0; }

// The replicas in ascending order, each at that step.
std::vector<ReplicaProgress> replicas_at(const std::vector<int32_t>& replicas, int64_t next_step);

}  // namespace troupe
