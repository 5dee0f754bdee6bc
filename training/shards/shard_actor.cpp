// Implements training/shards/shard_actor.hpp.
//
// Order: one replica's pushes are put in order by their sequence inside Shard; pushes of different
// replicas interleave in every way.
#include "training/shards/shard_actor.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>

#include "actors/async/guard.hpp"
#include "actors/cluster/process.hpp"
#include "devices/memory/pool.hpp"
#include "training/checkpoints/checkpoint.hpp"
#include "training/checkpoints/disk_thread.hpp"
#include "training/parameters/give_initial.hpp"
#include "training/parameters/messages.hpp"
#include "training/shards/senders.hpp"
#include "training/shards/shard_description.hpp"
#include "training/shards/shard_here.hpp"
#include "training/shards/shard_turn.hpp"

namespace troupe {

// Within one process: the result of file work, brought back to the actor that asked for it.
struct FileWorkDone {
  std::function<void()> go;
};

}  // namespace troupe
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::FileWorkDone)

namespace troupe {
namespace {

// A shard's initial values come in pieces below this; a length beyond is refused before memory is
// taken.
constexpr int64_t kSliceBytesMax = int64_t{1} << 34;

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

int64_t bytes_of(const Tensor& tensor) { return tensor.defined() ? tensor.byte_size() : 0; }

caf::error outcome_error(const Outcome& outcome) {
  return outcome ? caf::error{} : to_caf(outcome.code, outcome.text);
}

std::vector<ReplicaProgress> replicas_at(const std::vector<int32_t>& replicas, int64_t next_step) {
  std::vector<ReplicaProgress> out;
  for (int32_t replica : replicas) out.push_back({.replica = replica, .next_step = next_step});
  std::sort(out.begin(), out.end(),
            [](const auto& a, const auto& b) { return a.replica < b.replica; });
  return out;
}

// M: a Push or a RowPush.
template <class M>
void ShardActorState::push(M& m, int64_t bytes, uint64_t from, ShardActions& out) {
  auto it = traffic.find(m.slice);
  if (it != traffic.end()) it->second.pushed_bytes += bytes;
  Tracer& tracer = process->tracer();
  const int64_t begin = tracer.on() ? Tracer::now_ns() : 0;
  const int32_t replica = m.replica;
  const int64_t step = m.step;
  shard->push(std::move(m), from, out);
  if (begin)
    tracer.record({.category = "update",
                   .name = detail::concat(it == traffic.end() ? "unknown slice" : it->second.name,
                                          " replica ", replica, " step ", step),
                   .begin_ns = begin,
                   .end_ns = Tracer::now_ns()});
}

void ShardActorState::count(const Pulled& pulled) {
  if (auto it = traffic.find(pulled.slice); it != traffic.end() && pulled.values.defined())
    it->second.pulled_bytes += pulled.values.byte_size();
}

void ShardActorState::route(ShardActions& actions) {
  for (ShardAction& action : actions) {
    if (auto* done = std::get_if<SnapshotDone>(&action.message)) {
      snapshot_done(std::move(*done));
      continue;
    }
    const caf::actor* to = senders.find(action.to);
    if (!to) continue;
    if (auto* pulled = std::get_if<Pulled>(&action.message)) {
      count(*pulled);
      self->send(*to, std::move(*pulled));
    } else {
      self->send(*to, std::move(std::get<Acknowledged>(action.message)));
    }
  }
}

// Leaves in `actions` what is for `here`.
std::vector<Outgoing> ShardActorState::others(ShardActions& actions, uint64_t here) {
  std::vector<Outgoing> out;
  std::erase_if(actions, [&](ShardAction& action) {
    auto* const pulled = std::get_if<Pulled>(&action.message);
    if (pulled) count(*pulled);
    auto* const done = std::get_if<SnapshotDone>(&action.message);
    if (done) snapshot_done(std::move(*done));
    if (done || action.to == here) return done != nullptr;
    if (const caf::actor* to = senders.find(action.to))
      out.push_back(
          {*to, pulled ? caf::make_message(std::move(*pulled))
                       : caf::make_message(std::move(std::get<Acknowledged>(action.message)))});
    return true;
  });
  return out;
}

void ShardActorState::snapshot_done(SnapshotDone done) {
  const auto asked = captures.extract(done.id);
  if (!asked) return;
  if (done.code != Errc::ok) return pay(done.id, to_caf(done.code, done.text));
  capture = asked.mapped();
  captured = std::make_shared<ShardImage>(std::move(done.state));
  pay(done.id, caf::unit);
}

// What was captured is let go when it is written, so that updates need no copies any more.
caf::result<ShardFile> ShardActorState::write(const WriteShard& m) {
  if (!captured || capture != m.capture || captured->epoch != m.epoch)
    return to_caf(Errc::stale, detail::concat("the shard does not hold capture ", m.capture,
                                              " of epoch ", m.epoch, " any more"));
  const uint64_t number = owe();
  disk->post([this, &files = disk->disk(), handle = caf::actor_cast<caf::actor>(self), number, m,
              image = std::exchange(captured, nullptr)]() mutable {
    std::function<void()> answer;
    try {
      const CheckpointFile file = write_shard_file(files, m.directory, m.name, *image);
      answer = [this, number, file] { pay(number, ShardFile{file.name, file.bytes, file.sha256}); };
    } catch (const std::exception& e) {
      answer = [this, number, error = error_of(e)] { pay(number, error); };
    }
    image.reset();
    caf::anon_send(handle, FileWorkDone{std::move(answer)});
  });
  return owed.at(number);
}

caf::error ShardActorState::set_rule(const BeginEpoch& m) {
  check();
  return outcome_error(shard->set_rule(m.epoch, static_cast<Aggregation>(m.rule),
                                       replicas_at(m.replicas, m.next_step)));
}

caf::result<caf::unit_t> ShardActorState::begin_epoch(const BeginEpoch& m) {
  check();
  if (m.epoch < shard->epoch())
    return to_caf(Errc::stale,
                  detail::concat("the shard is in epoch ", shard->epoch(), ", not ", m.epoch));
  ShardActions out;
  initial.clear();
  captured = nullptr;
  if (m.mode == BeginEpoch::reset) {
    const Outcome outcome = shard->clear(m.epoch, replicas_at(m.replicas, m.next_step), out);
    route(out);
    if (!outcome) return outcome_error(outcome);
    if (caf::error error = set_rule(m)) return error;
    return caf::unit;
  }
  const Outcome begun = shard->begin_restore(m.epoch, out);
  route(out);
  if (!begun) return outcome_error(begun);
  const uint64_t number = owe();
  disk->post([this, &files = disk->disk(), handle = caf::actor_cast<caf::actor>(self), number, m,
              slices = shard->slices()]() mutable {
    std::function<void()> answer;
    try {
      const Manifest manifest = read_manifest(files, m.directory, m.manifest);
      auto states = std::make_shared<std::vector<SliceState>>(
          read_slices(files, m.directory, manifest, slices));
      answer = [this, number, m, states] {
        ShardActions actions;
        caf::error error = set_rule(m);  // before pulls that wait are answered
        if (!error) error = outcome_error(shard->restore(m.epoch, std::move(*states), actions));
        route(actions);
        if (error)
          pay(number, error);
        else
          pay(number, caf::unit);
      };
    } catch (const std::exception& e) {
      answer = [this, number, error = error_of(e), text = std::string(e.what())] {
        if (std::exchange(unread, text) != text)
          process->log()->warn("a checkpoint cannot be read: error={}", text);
        pay(number, error);
      };
    }
    caf::anon_send(handle, FileWorkDone{std::move(answer)});
  });
  return owed.at(number);
}

caf::result<caf::unit_t> ShardActorState::set_initial(const SetInitial& m) {
  const std::vector<Slice> slices = shard->slices();
  auto slice =
      std::find_if(slices.begin(), slices.end(), [&](const Slice& s) { return s.id == m.slice; });
  if (slice == slices.end())
    return to_caf(Errc::invalid_argument, detail::concat("this shard has no slice ", m.slice));
  const int64_t total = slice->bytes(), size = static_cast<int64_t>(m.bytes.size());
  if (total > kSliceBytesMax)
    return to_caf(
        Errc::invalid_argument,
        detail::concat(troupe::describe(*slice), " has ", total, " bytes; a slice has at most ",
                       kSliceBytesMax, ", so spread the parameter over more ps tasks"));
  if (m.byte_offset == 0) initial.erase(m.slice);  // from the start, again perhaps
  FirstValues& first = initial[m.slice];
  if (m.byte_offset != first.bytes || m.byte_offset > total - size)
    return to_caf(Errc::invalid_argument,
                  detail::concat("bytes ", m.byte_offset, " to ", m.byte_offset + size, " of ",
                                 troupe::describe(*slice), ", which has ", total, ", came after ",
                                 first.bytes, " bytes"));
  if (!first.values.defined())
    first.values = process->cpu().memory().make(slice->dtype, Shape{slice->size});
  std::memcpy(static_cast<char*>(first.values.mutable_raw()) + m.byte_offset, m.bytes.data(),
              m.bytes.size());
  first.bytes += size;
  if (first.bytes < total) return caf::unit;
  ShardActions out;
  const Outcome outcome = shard->set_initial(m.epoch, m.slice, std::move(first.values), out);
  initial.erase(m.slice);
  route(out);
  if (!outcome) return outcome_error(outcome);
  return caf::unit;
}

// Copied, as who made them may keep them; their memory is there for gradients if he does not.
caf::result<caf::unit_t> ShardActorState::give_initial(const GiveInitial& m) {
  Tensor values = process->cpu().memory().make(m.values.dtype(), m.values.shape());
  std::memcpy(values.mutable_raw(), m.values.raw(), static_cast<size_t>(values.byte_size()));
  ShardActions out;
  const Outcome outcome = shard->set_initial(m.epoch, m.slice, std::move(values), out);
  initial.erase(m.slice);
  route(out);
  if (!outcome) return outcome_error(outcome);
  return caf::unit;
}

ShardDescription ShardActorState::describe() const {
  ShardDescription out = describe_shard(*shard);
  out.door = self->id();
  for (const SliceSpec& slice : out.slices) {
    out.pulled_bytes.push_back(traffic.at(slice.slice).pulled_bytes);
    out.pushed_bytes.push_back(traffic.at(slice.slice).pushed_bytes);
  }
  return out;
}

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
