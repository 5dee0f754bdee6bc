// The actor of a shard: its messages, and the requests that callers of its process make in place of
// messages. shard_actor_state.cpp carries them out.
//
// Order: one replica's pushes are put in order by their sequence inside Shard; pushes of different
// replicas interleave in every way.
#include "training/shards/shard_actor.hpp"

#include <mutex>

#include "actors/async/guard.hpp"
#include "actors/cluster/process.hpp"
#include "devices/memory/pool.hpp"
#include "training/checkpoints/disk_thread.hpp"
#include "training/parameters/give_initial.hpp"
#include "training/parameters/messages.hpp"
#include "training/shards/shard_actor_state.hpp"
#include "training/shards/shard_description.hpp"
#include "training/shards/shard_lock.hpp"

namespace troupe {
namespace {

class ShardActor final : public FilingShard::stateful_base<ShardActorState>, public LocalShard {
 public:
  ShardActor(caf::actor_config& config, Process* process, std::shared_ptr<DiskThread> disk,
             Shard::Spec spec, std::function<void(Shard&)> on_shard)
      : stateful_actor(config),
        process_(process),
        disk_(std::move(disk)),
        spec_(std::move(spec)),
        on_shard_(std::move(on_shard)) {}

  behavior_type make_behavior() override;

  // While the actor has handles it does everything in here, also its end. An actor that lives until
  // its last handle goes ends without the lock: a caller has a handle.
  resume_result resume(caf::execution_unit* unit, size_t max_throughput) override {
    const std::lock_guard held(lock_);
    return stateful_actor::resume(unit, max_throughput);
  }

  bool ask(ShardRequest& request, const caf::strong_actor_ptr& door, ShardActions& out) override {
    std::vector<Outgoing> others;
    {
      const std::unique_lock held(lock_, std::try_to_lock);
      const uint64_t number = held && open_ ? number_of(door) : 0;
      if (number == 0) return false;
      context(nullptr);  // that of the last message may be gone
      try {
        const Pull* const pull = std::get_if<Pull>(&request);
        if (pull && state.shard->puts_together(*pull)) return false;
        state.handle(request, number, out);
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

 private:
  uint64_t number_of(const caf::strong_actor_ptr& door) {
    if (last_ == door && state.senders.again(last_number_)) return last_number_;
    last_number_ = state.senders.known(door);
    last_ = caf::actor_cast<caf::actor_addr>(door);
    return last_number_ != 0 && state.senders.again(last_number_) ? last_number_ : 0;
  }

  // Takes no memory except a place in the queue of ready actors: without that place the process
  // ends.
  void die() noexcept {
    open_ = false;
    state.thrown = std::current_exception();
    enqueue(std::move(death_), nullptr);
  }

  ShardLock lock_;
  bool open_ = false;               // guarded by lock_; from make_behavior() until the actor dies
  caf::mailbox_element_ptr death_;  // a message to itself that makes it throw `thrown`
  caf::actor_addr last_;            // the door of the last caller, and its number
  uint64_t last_number_ = 0;
  Process* const process_;
  std::shared_ptr<DiskThread> disk_;  // until it runs: jobs of the thread have handles to us
  Shard::Spec spec_;
  const std::function<void(Shard&)> on_shard_;
};

FilingShard::behavior_type run_shard(FilingShard::stateful_pointer<ShardActorState> self,
                                     Process* process, std::shared_ptr<DiskThread> disk,
                                     Shard::Spec spec,
                                     const std::function<void(Shard&)>& on_shard) {
  ShardActorState& s = self->state;
  s.self = self;
  s.process = process;
  s.disk = std::move(disk);
  s.shard = std::make_unique<Shard>(std::move(spec));
  s.shard->set_bad_log([&s](const BadGradient& bad) { s.warn_of(bad); });
  if (on_shard) on_shard(*s.shard);
  self->set_exception_handler(to_error);
  self->set_down_handler([self](const caf::down_msg& m) { self->state.down(m); });
  return {
      [self](Push& m) { self->state.take(std::move(m)); },
      [self](const Pull& m) { self->state.take(m); },
      [self](const CreateShard& m) { return self->state.own(m); },
      [self](const DescribeShard&) { return self->state.describe(); },
      [self](const CountPushes&) { return count_pushes(*self->state.shard); },
      [self](const AskWaits&) {
        const std::string text = self->state.shard->waiting_for();
        return text.empty() ? Waits{} : Waits{{text}};
      },
      [self](const SetInitial& m) -> caf::result<caf::unit_t> {
        if (caf::error error = self->state.check_order()) return error;
        try {
          return self->state.set_initial(m);
        } catch (
            const std::exception& e) {  // no memory: the sender is told, and the shard lives on
          self->state.initial.drop(m.slice);
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
      [self](const SetRateScale& m) { return self->state.set_rate_scale(m); },
      [self](const ChangeRule& m) { return self->state.change_rule(m); },
      [self](const WriteShard& m) { return self->state.write(m); },
      [self](const CaptureShard& m) { return self->state.hold(m); },
      [](const FileWorkDone& m) { m.go(); },
  };
}

FilingShard::behavior_type ShardActor::make_behavior() {
  behavior_type behavior = run_shard(this, process_, std::move(disk_), std::move(spec_), on_shard_);
  state.open = &open_;
  death_ = caf::make_mailbox_element(nullptr, caf::make_message_id(caf::message_priority::high), {},
                                     FileWorkDone{[this] { state.check(); }});
  open_ = true;
  return behavior;
}

}  // namespace

LocalShard* local_shard(const ShardDoor& actor) {
  return dynamic_cast<ShardActor*>(caf::actor_cast<caf::abstract_actor*>(actor));
}

ShardHandle spawn_shard(Process& process, std::shared_ptr<DiskThread> disk,
                        const CreateShard& order, const std::function<void(Shard&)>& on_shard) {
  Shard::Spec spec;
  spec.epoch = order.epoch;
  spec.rule = aggregation_from_string(order.rule);
  spec.replicas = replicas_at(order.replicas, 0);
  for (const SliceSpec& slice : order.slices) spec.slices.push_back(from_spec(slice));
  spec.lanes = &process.lanes().op_lanes();
  spec.skips_bad = order.skips_bad;
  const auto* const memory = dynamic_cast<const PoolMemory*>(&process.cpu().memory());
  spec.memory = {memory ? memory->owner() : nullptr, process.cpu().segments(),
                 &process.values_memory()};
  Shard checked(spec);  // a bad spec is told to the sender before there is an actor
  return process.system().spawn<ShardActor>(&process, std::move(disk), std::move(spec), on_shard);
}

}  // namespace troupe
