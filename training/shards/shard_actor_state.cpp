// The requests to a shard's actor: pushes and pulls, captures and checkpoints, epochs, and first
// values.
#include "training/shards/shard_actor_state.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "actors/async/guard.hpp"
#include "graph/base/fail_point.hpp"
#include "training/checkpoints/checkpoint.hpp"
#include "training/checkpoints/checkpoint_files.hpp"
#include "training/checkpoints/record.hpp"
#include "training/shards/shard_description.hpp"

namespace troupe {
namespace {

// A replica whose gradients are not finite is in the log once for so many of them.
constexpr int64_t kSkippedPerLine = 100;

// Files of one shard that wait for the disk at a time. Each keeps the values of its step.
constexpr int kWritesMax = 2;

constexpr const char *kRecord = "record", *kCheckpoint = "checkpoint";  // that a shard reads

// The part of a record that begins with this epoch.
RecordPart part_of(const BeginEpoch& m, std::vector<Slice> slices) {
  std::erase_if(slices, [](const Slice& slice) { return !slice.optimizer; });
  return {.part = m.part,
          .begin = m.next_step,
          .shard = m.shard,
          .shards = m.shards,
          .rule = m.rule,
          .slices = std::move(slices)};
}

caf::error outcome_error(const Outcome& outcome) {
  return outcome ? caf::error{} : to_caf(outcome.code, outcome.text);
}

}  // namespace

std::vector<ReplicaProgress> replicas_at(const std::vector<int32_t>& replicas, int64_t next_step) {
  std::vector<ReplicaProgress> out;
  for (int32_t replica : replicas) out.push_back({.replica = replica, .next_step = next_step});
  std::sort(out.begin(), out.end(),
            [](const auto& a, const auto& b) { return a.replica < b.replica; });
  return out;
}

caf::error ShardActorState::check_order() const {
  check();
  const caf::strong_actor_ptr& from = self->current_sender();
  if (owner.takes_orders_of(from ? from->node() : caf::node_id{})) return {};
  return to_caf(Errc::invalid_argument, "the shard is of a session of another process");
}

uint64_t ShardActorState::sender() {
  check();
  const auto& who = self->current_sender();
  if (!who) return 0;
  const Senders::Number n = senders.number(who);
  if (n.fresh) self->monitor(caf::actor_cast<caf::actor>(who));
  if (n.forgotten != 0) shard->forget(n.forgotten);
  return n.number;
}

caf::result<ShardDescription> ShardActorState::own(const CreateShard& m) {
  const auto& who = self->current_sender();
  if (!who) return error_of(without_sender());
  const auto asker = caf::actor_cast<caf::actor_addr>(who);
  const std::vector<ReplicaProgress> known = shard->replicas();
  for (const int32_t replica : m.trains)
    if (std::none_of(known.begin(), known.end(),
                     [replica](const ReplicaProgress& p) { return p.replica == replica; }))
      return to_caf(Errc::invalid_argument,
                    detail::concat("container ", m.container, " has no replica ", replica));
  const auto now = self->clock().now();
  const bool owns = owner.ask(m, asker, now);  // each time, as an answer may get lost
  if (const auto taken = owner.train(m.trains, asker, now)) {
    const std::string by = process->leases().task_of(taken->by.node());
    return to_caf(
        Errc::bad_configuration,
        detail::concat("replica ", taken->replica, " of container ", m.container,
                       " is trained by another program, ", by.empty() ? process->task() : by,
                       "; end that one, or give the towers of this one other replicas"));
  }
  ShardDescription out = describe();
  out.created = owns;
  out.owner_away = owner.is_away();
  out.owner_trains = owner.trains();
  if ((owns || !m.trains.empty()) && owner.watch(asker))
    self->monitor(caf::actor_cast<caf::actor>(who));
  return out;
}

void ShardActorState::down(const caf::down_msg& m) {
  if (const uint64_t gone = senders.gone(m.source)) shard->forget(gone);
  const bool ended = !m.reason || m.reason == caf::exit_reason::user_shutdown;
  owner.gone(m.source, ended, self->clock().now());
}

void ShardActorState::handle(ShardRequest& request, uint64_t from, ShardActions& out) {
  if (recorder.due()) recorder.write();
  if (const Pull* const pull = std::get_if<Pull>(&request)) return shard->pull(*pull, from, out);
  Push& push = std::get<Push>(request);
  Tracer& tracer = process->tracer();
  if (!tracer.on()) return shard->push(std::move(push), from, out);
  const int64_t begin = Tracer::now_ns();
  const HeldSlice* const slice = shard->find(push.slice);
  std::string what = detail::concat(slice ? troupe::describe(slice->slice()) : "unknown slice",
                                    " replica ", push.replica, " step ", push.step);
  shard->push(std::move(push), from, out);
  tracer.record({.category = "update",
                 .name = std::move(what),
                 .begin_ns = begin,
                 .end_ns = Tracer::now_ns()});
}

std::vector<Outgoing> ShardActorState::others(ShardActions& actions, uint64_t here) {
  std::vector<Outgoing> out;
  std::erase_if(actions, [&](ShardAction& action) {
    if (action.to == here) return false;
    if (const ParameterDoor* to = senders.find(action.to))
      out.push_back({*to, std::visit([](auto& m) { return caf::make_message(std::move(m)); },
                                     action.message)});
    return true;
  });
  return out;
}

void ShardActorState::send(ShardActions& actions) {
  for (Outgoing& one : others(actions, /*here=*/~uint64_t{0}))
    one.to->enqueue(self->ctrl(), caf::make_message_id(), std::move(one.message), self->context());
}

void ShardActorState::take(ShardRequest request) {
  ShardActions out;
  handle(request, sender(), out);
  send(out);
}

// Held without a copy: updates copy the values until the capture is written or replaced.
caf::result<caf::unit_t> ShardActorState::hold(const CaptureShard& m) {
  if (caf::error error = check_order()) return error;
  const uint64_t number = owe();
  const caf::response_promise promise = owed.promise(number);
  shard->capture(m.epoch, m.step,
                 [this, number, id = m.capture](const Outcome& outcome, ShardImage image) {
                   if (!outcome) return owed.pay(number, outcome_error(outcome));
                   captured = {id, std::make_shared<ShardImage>(std::move(image))};
                   fail_point(FailPoint::shard_capture_held);
                   owed.pay(number, caf::unit);
                 });
  return promise;
}

// Lets the captured values go once they are written: then updates need no copies.
caf::result<ShardFile> ShardActorState::write(const WriteShard& m) {
  if (caf::error error = check_order()) return error;
  if (!captured.image || captured.number != m.capture || captured.image->epoch != m.epoch)
    return to_caf(Errc::stale, detail::concat("the shard does not hold capture ", m.capture,
                                              " of epoch ", m.epoch, " any more"));
  const auto name = parse_checkpoint_name(m.name);
  if (!name || name->manifest || name->temp)  // a member must not choose files of other kinds
    return to_caf(Errc::invalid_argument,
                  detail::concat("\"", m.name, "\" names no file of a shard in a checkpoint"));
  if (writes >= kWritesMax)
    return to_caf(Errc::io, detail::concat("the disk has not taken ", writes,
                                           " files of earlier checkpoints yet; look at it"));
  ++writes;
  recorder.write(captured.image->step);
  const uint64_t number = owe();
  disk->post([this, &files = disk->disk(), handle = caf::actor_cast<FileWaiter>(self), number, m,
              image = std::exchange(captured.image, nullptr)]() mutable {
    std::function<void()> answer;
    try {
      fail_point(FailPoint::checkpoint_shard_before_write);
      const CheckpointFile file = write_shard_file(files, m.directory, m.name, *image);
      answer = [this, number, file] {
        --writes;
        owed.pay(number, ShardFile{file.name, file.bytes, file.sha256});
      };
    } catch (const std::exception& e) {
      answer = [this, number, error = error_of(e)] {
        --writes;
        owed.pay(number, error);
      };
    }
    image.reset();
    caf::anon_send(handle, FileWorkDone{std::move(answer)});
  });
  return owed.promise(number);
}

caf::error ShardActorState::set_terms(const BeginEpoch& m, Replay replay) {
  check();
  auto order = std::make_unique<ShardOrder>(ShardOrder{.replay = std::move(replay)});
  recorder.end();
  if (!m.record.empty())
    order->record = recorder.begin(disk, *process, m.record, part_of(m, shard->slices()));
  const bool ordered = order->record || !order->replay.empty();
  shard->set_order(ordered ? std::move(order) : nullptr);
  try {
    const Outcome rule = shard->set_rule(m.epoch, aggregation_from_string(m.rule),
                                         replicas_at(m.replicas, m.next_step));
    if (!rule) return outcome_error(rule);
  } catch (const Error& e) {
    return to_caf(e.code(), e.what());
  }
  shard->set_skips_bad(m.skips_bad);
  return outcome_error(shard->set_rate_scale(m.epoch, m.next_step, m.rate_scale));
}

caf::result<caf::unit_t> ShardActorState::set_rate_scale(const SetRateScale& m) {
  if (caf::error error = check_order()) return error;
  if (const Outcome o = shard->set_rate_scale(m.epoch, m.step, m.rate_scale); !o)
    return outcome_error(o);
  return caf::unit;
}

caf::result<caf::unit_t> ShardActorState::change_rule(const ChangeRule& m) {
  if (caf::error error = check_order()) return error;
  ShardActions out;
  Outcome outcome;
  try {
    outcome = shard->change_rule(m.epoch, m.step, aggregation_from_string(m.rule), out);
  } catch (const Error& e) {
    return to_caf(e.code(), e.what());
  }
  send(out);
  if (!outcome) return outcome_error(outcome);
  recorder.change_rule(m.step, m.rule);
  return caf::unit;
}

caf::result<caf::unit_t> ShardActorState::begin_epoch(const BeginEpoch& m) {
  if (caf::error error = check_order()) return error;
  if (m.epoch < shard->epoch())
    return to_caf(Errc::stale,
                  detail::concat("the shard is in epoch ", shard->epoch(), ", not ", m.epoch));
  if (const auto asker = caf::actor_cast<caf::actor_addr>(self->current_sender());
      !owner.may_begin_epochs(asker))
    return to_caf(Errc::stale, "the shard is of another session, which begins its epochs");
  if (m.epoch - shard->epoch() > ShardOwner::kEpochsAheadMax)
    return to_caf(Errc::invalid_argument, detail::concat("epoch ", m.epoch, " is too far from ",
                                                         shard->epoch(), ", the shard's"));
  const bool restores = m.mode != BeginEpoch::reset && m.mode != BeginEpoch::keep;
  if (const auto name = parse_checkpoint_name(m.manifest);
      restores && (!name || !name->manifest || name->temp))
    return to_caf(Errc::invalid_argument,
                  detail::concat("\"", m.manifest, "\" names no manifest of a checkpoint"));
  const uint64_t number = owe();
  const caf::response_promise promise = owed.promise(number);
  if (m.replay.empty()) {
    start_epoch(m, number, {});
    return promise;
  }
  read(kRecord, number,
       [this, &files = disk->disk(), number, m,
        slices = shard->slices()]() -> std::function<void()> {
         const auto trained = [&slices](const std::string& parameter) {
           return std::any_of(slices.begin(), slices.end(), [&](const Slice& s) {
             return s.optimizer && s.parameter == parameter;
           });
         };
         const OrderRecord record = read_record(files, m.replay, trained);
         Replay replay;
         for (const Slice& slice : slices)
           if (slice.optimizer) replay[slice.id] = record.events_of(slice);
         return [this, number, m, replay = std::move(replay)] { start_epoch(m, number, replay); };
       });
  return promise;
}

void ShardActorState::start_epoch(const BeginEpoch& m, uint64_t number, Replay replay) {
  check();
  ShardActions out;
  const bool keeps = m.mode == BeginEpoch::keep;
  Outcome outcome;
  try {
    if (keeps && shard->state() != Shard::State::serving)
      outcome = {Errc::invalid_argument, "the shard has no values that it could keep"};
    else
      outcome = keeps ? shard->set_epoch(m.epoch, out)
                : m.mode == BeginEpoch::reset
                    ? shard->clear(m.epoch, aggregation_from_string(m.rule),
                                   replicas_at(m.replicas, m.next_step), out)
                    : shard->begin_restore(m.epoch, out);
  } catch (const Error& e) {  // of the rule's text
    outcome = {e.code(), e.what()};
  }
  send(out);
  if (!outcome) return owed.pay(number, outcome_error(outcome));
  owner.epoch_begun(m.epoch);  // first values and captures of the epoch before are over
  initial.clear();
  captured.image = nullptr;
  fail_point(FailPoint::shard_epoch_begun);
  if (m.mode != BeginEpoch::reset && !keeps) return restore(m, number, std::move(replay));
  if (caf::error error = keeps ? caf::error{} : set_terms(m, std::move(replay)))
    owed.pay(number, error);
  else
    owed.pay(number, caf::unit);
}

void ShardActorState::restore(const BeginEpoch& m, uint64_t number, Replay replay) {
  read(kCheckpoint, number,
       [this, &files = disk->disk(), number, m, replay = std::move(replay),
        slices = shard->slices()]() -> std::function<void()> {
         fail_point(FailPoint::checkpoint_before_read);
         const Manifest manifest = read_manifest(files, m.directory, m.manifest);
         auto states = std::make_shared<std::vector<SliceState>>(
             read_slices(files, m.directory, manifest, slices));
         return [this, number, m, states, replay] {
           fail_point(FailPoint::shard_restore_before_adopt);
           ShardActions actions;
           caf::error error = set_terms(m, replay);  // before pulls that wait are answered
           if (!error) error = outcome_error(shard->restore(m.epoch, std::move(*states), actions));
           send(actions);
           if (error)
             owed.pay(number, error);
           else
             owed.pay(number, caf::unit);
         };
       });
}

// Reads files on the disk thread, and brings the rest of the work back to the actor.
void ShardActorState::read(const std::string& what, uint64_t number,
                           std::function<std::function<void()>()> job) {
  disk->post_reading(
      [this, what, number, handle = caf::actor_cast<FileWaiter>(self), job = std::move(job)] {
        std::function<void()> answer;
        try {
          answer = job();
        } catch (const std::exception& e) {
          caf::error error = error_of(e);
          // The asker knows the folder; why it cannot be read is for the owner of this machine.
          if (from_caf(error).first == Errc::io)
            error = to_caf(Errc::io, detail::concat("the ", what, " cannot be read; the log of ",
                                                    process->task(), " says why"));
          answer = [this, what, number, error, text = std::string(e.what())] {
            const bool told = std::exchange(unread, text) == text;
            if (!told && what == kRecord)
              process->log()->warn("a record cannot be read: error={}", text);
            if (!told && what == kCheckpoint)
              process->log()->warn("a checkpoint cannot be read: error={}", text);
            owed.pay(number, error);
          };
        }
        caf::anon_send(handle, FileWorkDone{std::move(answer)});
      });
}

caf::result<caf::unit_t> ShardActorState::set_values(uint64_t epoch, uint32_t slice,
                                                     Tensor values) {
  ShardActions out;
  const Outcome outcome = shard->set_initial(epoch, slice, std::move(values), out);
  initial.drop(slice);
  send(out);
  if (!outcome) return outcome_error(outcome);
  return caf::unit;
}

caf::result<caf::unit_t> ShardActorState::set_initial(const SetInitial& m) {
  const HeldSlice* const slice = shard->find(m.slice);
  if (!slice)
    return to_caf(Errc::invalid_argument, detail::concat("this shard has no slice ", m.slice));
  Tensor whole;
  const Outcome outcome = initial.add(m, slice->slice(), process->values_memory(), whole);
  if (!outcome) return outcome_error(outcome);
  if (!whole.defined()) return caf::unit;
  return set_values(m.epoch, m.slice, std::move(whole));
}

// Copies the values, as their maker may keep them; the copy's memory can become a gradient's.
caf::result<caf::unit_t> ShardActorState::give_initial(const GiveInitial& m) {
  Tensor values = process->values_memory().make(m.values.dtype(), m.values.shape());
  std::memcpy(values.mutable_raw(), m.values.raw(), static_cast<size_t>(values.byte_size()));
  return set_values(m.epoch, m.slice, std::move(values));
}

void ShardActorState::warn_of(const BadGradient& bad) {
  if (bad.count % kSkippedPerLine != 1) return;
  const ParameterDoor* const door = senders.find(bad.from);
  std::string task = process->task();
  if (door && (*door)->node() != self->node()) task = process->leases().task_of((*door)->node());
  process->log()->warn(
      "a gradient is skipped: parameter={} replica={} task={} step={} reason={} count={}",
      bad.parameter, bad.replica, task, bad.step, bad.element, bad.count);
}

ShardDescription ShardActorState::describe() const {
  ShardDescription out = describe_shard(*shard);
  out.door = self->id();
  return out;
}

}  // namespace troupe
