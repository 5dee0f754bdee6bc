// The actor of a shard: its messages, and the calls of its own process that it takes in their
// place. Its state is in shard_actor_state.cpp.
//
// Order: one replica's pushes are put in order by their sequence inside Shard; pushes of different
// replicas interleave in every way.
#include "training/shards/shard_actor.hpp"

#include <map>
#include <mutex>

#include "actors/async/guard.hpp"
#include "actors/cluster/process.hpp"
#include "devices/memory/pool.hpp"
#include "training/checkpoints/disk_thread.hpp"
#include "training/parameters/give_initial.hpp"
#include "training/parameters/messages.hpp"
#include "training/shards/shard_actor_state.hpp"
#include "training/shards/shard_here.hpp"
#include "training/shards/shard_turn.hpp"

namespace troupe {
namespace {

class ShardActor final : public caf::stateful_actor<ShardActorState>, public ShardHere {
 public:
  ShardActor(caf::actor_config& config, Process* process, std::shared_ptr<DiskThread> disk,
             Shard::Spec spec, std::function<void(Shard&)> on_shard)
      : stateful_actor(config),
        process_(process),
        disk_(std::move(disk)),
        spec_(std::move(spec)),
        on_shard_(std::move(on_shard)) {}

  caf::behavior make_behavior() override;

  // All that the actor does while somebody has a handle to it, it does in here, its end included.
  // One that lives when the last handle goes ends as that goes, without a turn: who calls has a
  // handle.
  resume_result resume(caf::execution_unit* unit, size_t max_throughput) override {
    const std::lock_guard turn(turn_);
    return stateful_actor::resume(unit, max_throughput);
  }

  bool push(RowPush& message, const caf::strong_actor_ptr& from, ShardActions& out) override {
    return call(from, out, [&](uint64_t number) {
      state.push(message, bytes_of(message.gradient) + bytes_of(message.rows), number, out);
      return true;
    });
  }
  bool pull(const Pull& message, const caf::strong_actor_ptr& from, ShardActions& out) override {
    return call(from, out, [&](uint64_t number) {
      const bool brief = !state.shard->puts_together(message);
      if (brief) state.shard->pull(message, number, out);
      return brief;
    });
  }

 private:
  uint64_t number_of(const caf::strong_actor_ptr& door) {
    if (last_ == door && state.senders.again(last_number_)) return last_number_;
    last_number_ = state.senders.known(door);
    last_ = caf::actor_cast<caf::actor_addr>(door);
    return last_number_ != 0 && state.senders.again(last_number_) ? last_number_ : 0;
  }

  // Without memory, but for a place in the queue of those that are to run: if there is none for
  // that, the process ends, as the shard cannot.
  void die() noexcept {
    open_ = false;
    state.thrown = std::current_exception();
    enqueue(std::move(death_), nullptr);
  }

  template <class F>
  bool call(const caf::strong_actor_ptr& from, ShardActions& out, F f) {
    std::vector<Outgoing> others;
    {
      const std::unique_lock turn(turn_, std::try_to_lock);
      const uint64_t number = turn && open_ ? number_of(from) : 0;
      if (number == 0) return false;
      context(nullptr);  // that of the last message may be gone
      try {
        if (!f(number)) return false;
        others = state.others(out, number);
      } catch (...) {  // the actor dies of it, as it would of the message
        out.clear();
        die();
      }
    }
    for (Outgoing& one : others)
      one.to->enqueue(ctrl(), caf::make_message_id(), std::move(one.message), nullptr);
    return true;
  }

  ShardTurn turn_;
  bool open_ = false;               // in its turn; from the first message on, until it dies
  caf::mailbox_element_ptr death_;  // a message to itself, of which it dies
  caf::actor_addr last_;            // whoever called last, and its number
  uint64_t last_number_ = 0;
  Process* const process_;
  std::shared_ptr<DiskThread> disk_;  // until it runs: jobs of the thread have handles to us
  Shard::Spec spec_;
  const std::function<void(Shard&)> on_shard_;
};

caf::behavior run_shard(caf::stateful_actor<ShardActorState>* self, Process* process,
                        std::shared_ptr<DiskThread> disk, Shard::Spec spec,
                        const std::function<void(Shard&)>& on_shard) {
  ShardActorState& s = self->state;
  s.self = self;
  s.process = process;
  s.disk = std::move(disk);
  s.shard = std::make_unique<Shard>(std::move(spec));
  for (const Slice& slice : s.shard->slices()) s.traffic[slice.id].name = describe(slice);
  if (on_shard) on_shard(*s.shard);
  self->set_exception_handler(to_error);
  self->set_down_handler([self](const caf::down_msg& m) {
    if (const uint64_t gone = self->state.senders.gone(m.source)) self->state.shard->forget(gone);
  });
  return {
      [self](Push& m) { self->state.push(m, bytes_of(m.gradient)); },
      [self](RowPush& m) { self->state.push(m, bytes_of(m.gradient) + bytes_of(m.rows)); },
      [self](const Pull& m) {
        ShardActions out;
        self->state.shard->pull(m, self->state.sender(), out);
        self->state.route(out);
      },
      [self](const CreateShard&) {
        ShardActorState& state = self->state;
        const auto asker = caf::actor_cast<caf::actor_addr>(self->current_sender());
        if (!state.creator) state.creator = asker;
        ShardDescription out = state.describe();
        out.created = asker == state.creator;  // also when he asks again: the answer may get lost
        return out;
      },
      [self](const DescribeShard&) { return self->state.describe(); },
      [self](const AskWaits&) {
        const std::string text = self->state.shard->waiting_for();
        return text.empty() ? Waits{} : Waits{{text}};
      },
      [self](const SetInitial& m) -> caf::result<caf::unit_t> {
        self->state.check();
        try {
          return self->state.set_initial(m);
        } catch (const std::exception& e) {  // no memory: the sender's to know, not the shard's end
          self->state.initial.erase(m.slice);
          return error_of(e);
        }
      },
      [self](const GiveInitial& m) -> caf::result<caf::unit_t> {
        self->state.check();
        try {
          return self->state.give_initial(m);
        } catch (const std::exception& e) {  // as above
          return error_of(e);
        }
      },
      [self](const BeginEpoch& m) { return self->state.begin_epoch(m); },
      [self](const WriteShard& m) { return self->state.write(m); },
      [self](const CaptureShard& m) {
        ShardActorState& state = self->state;
        const uint64_t number = state.owe();
        caf::response_promise promise = state.owed.at(number);
        state.captures[number] = m.capture;
        ShardActions out;
        state.shard->snapshot(m.epoch, m.step, number, 0, out);
        state.route(out);
        return promise;
      },
      [](const FileWorkDone& m) { m.go(); },
  };
}

caf::behavior ShardActor::make_behavior() {
  caf::behavior behavior = run_shard(this, process_, std::move(disk_), std::move(spec_), on_shard_);
  state.open = &open_;
  death_ = caf::make_mailbox_element(nullptr, caf::make_message_id(caf::message_priority::high), {},
                                     FileWorkDone{[this] { state.check(); }});
  open_ = true;
  return behavior;
}

}  // namespace

ShardHere* shard_here(const caf::actor& actor) {
  return dynamic_cast<ShardActor*>(caf::actor_cast<caf::abstract_actor*>(actor));
}

caf::actor spawn_shard(Process& process, std::shared_ptr<DiskThread> disk, const CreateShard& order,
                       const std::function<void(Shard&)>& on_shard) {
  Shard::Spec spec;
  spec.epoch = order.epoch;
  spec.rule = static_cast<Aggregation>(order.rule);
  spec.replicas = replicas_at(order.replicas, 0);
  for (const SliceSpec& slice : order.slices) spec.slices.push_back(from_spec(slice));
  spec.lanes = &process.op_lanes();
  const auto* const memory = dynamic_cast<const PoolMemory*>(&process.cpu().memory());
  if (memory) spec.pool = memory->owner();
  Shard checked(spec);  // what is wrong is the sender's to know, not the actor's end
  return process.system().spawn<ShardActor>(&process, std::move(disk), std::move(spec), on_shard);
}

}  // namespace troupe
