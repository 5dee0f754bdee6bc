// The orders of a Shard's master: initial values, epochs, replicas, restores and snapshots.
#include "training/shards/shard.hpp"

#include <algorithm>
#include <set>

#include "training/rules/optimizer.hpp"
#include "training/shards/shard_body.hpp"

namespace troupe {
namespace {

// Above the number of snapshots that a trainer has waiting at once.
constexpr size_t kSnapshotsMax = 8;

std::vector<ReplicaProgress> ascending(std::vector<ReplicaProgress> replicas) {
  std::sort(
      replicas.begin(), replicas.end(),
      [](const ReplicaProgress& a, const ReplicaProgress& b) { return a.replica < b.replica; });
  return replicas;
}

void check(const Slice& s) {
  if (s.optimizer) {
    check_optimizer(*s.optimizer);
    if (!is_wide_float(s.dtype))
      throw Error(Errc::invalid_argument, "parameter ", s.parameter, " is ", s.dtype,
                  "; only f32 and f64 can be trained");
  }
  if (s.offset < 0 || s.size < 0 || s.offset > s.shape.size() - s.size)
    throw Error(Errc::invalid_argument, "slice ", s.id, " of ", s.parameter, " is elements ",
                s.offset, " to ", s.offset + s.size, " of ", s.shape.size());
  if (s.optimizer && wants_whole_parameter(*s.optimizer) && !s.whole())
    throw Error(Errc::invalid_argument, describe(s), " is a part of a parameter, and ",
                s.optimizer->kind, " wants it whole");
}

// Checks only the type: the first update copies shared values before it writes.
Outcome check_values(const Slice& slice, const Tensor& values, const char* what) {
  if (values.defined() && values.on_host() && values.dtype() == slice.dtype &&
      values.size() == slice.size)
    return {};
  return {Errc::invalid_argument,
          detail::concat(what, " of ", describe(slice), " are ", values.dtype(), " of ",
                         values.size(), " elements; wants ", slice.dtype, " of ", slice.size)};
}

// The step at which each of the shard's replicas continues: its own progress, or the slowest one's.
std::vector<ReplicaProgress> progress_of(const SliceState& state,
                                         const std::set<int32_t>& replicas) {
  std::vector<ReplicaProgress> out;
  for (const int32_t replica : replicas) {
    ReplicaProgress mine{.replica = replica, .next_step = state.next_step};
    for (const ReplicaProgress& p : state.progress)
      if (p.replica == mine.replica) mine = p;
    out.push_back(mine);
  }
  return out;
}

Tensor flat(Tensor values) {
  return values.ndim() == 1 ? values : values.reshaped(Shape{values.size()});
}

}  // namespace

const char* to_string(PushRefusal reason) {
  static const char* const names[] = {"epoch", "incarnation", "unknown",    "not_serving", "type",
                                      "gap",   "step",        "not_finite", "full"};
  static_assert(std::size(names) == static_cast<size_t>(PushRefusal::kCount));
  return reason < PushRefusal::kCount ? names[static_cast<size_t>(reason)] : "?";
}

const char* to_string(Shard::State state) {
  return state == Shard::State::empty       ? "empty"
         : state == Shard::State::restoring ? "restoring"
                                            : "serving";
}

Shard::Shard(Spec spec) : body_(std::make_unique<Body>()) {
  body_->epoch = spec.epoch;
  body_->kind = spec.rule;
  body_->lanes = spec.lanes;
  body_->pool = spec.pool;
  for (Slice& slice : spec.slices) {
    check(slice);
    Body::Held held;
    held.slice = std::move(slice);
    const uint32_t id = held.slice.id;
    if (!body_->slices.emplace(id, std::move(held)).second)
      throw Error(Errc::invalid_argument, "slice ", id, " is given twice");
  }
  body_->set_replicas(ascending(std::move(spec.replicas)));
  if (body_->slices.empty()) body_->state = State::serving;
}
Shard::Shard(Shard&&) noexcept = default;
Shard& Shard::operator=(Shard&&) noexcept = default;
Shard::~Shard() = default;

void Shard::set_applied_log(std::function<void(const Applied&)> log) {
  body_->applied_log = std::move(log);
}

Outcome Shard::Body::fence(uint64_t wanted, const char* what) const {
  if (wanted == epoch) return {};
  return {Errc::stale,
          detail::concat(what, " is for epoch ", wanted, ", the shard is in epoch ", epoch)};
}

void Shard::Body::set_replicas(const std::vector<ReplicaProgress>& replicas) {
  std::map<uint32_t, std::unique_ptr<AggregationRule>> rules;  // all or none
  for (const auto& [id, held] : slices)
    if (held.slice.optimizer) rules[id] = make_rule(kind, replicas);
  replica_numbers.clear();
  for (const ReplicaProgress& s : replicas) replica_numbers.insert(s.replica);
  for (auto& [id, rule] : rules) {
    Held& held = slices.at(id);
    held.rule = std::move(rule);
    held.state.previous_version = -1;  // steps are counted anew, so it is no step's version
    std::erase_if(held.sequences, [&](const auto& s) { return !replica_numbers.count(s.first); });
    for (auto& [replica, sequence] : held.sequences) sequence.first = 0;
  }
}

// Answers all that waits with `why`, refuses the gradients that the rules hold, and resets the
// sequences to 0.
void Shard::Body::drop_waiting(const std::string& why, ShardActions& out) {
  for (auto& [id, held] : slices) {
    for (auto& [replica, sequence] : held.sequences)
      refuse_parked(held, replica, PushRefusal::epoch, why, out);
    for (auto& [replica, sequence] : held.sequences)
      sequence = {.incarnation = sequence.incarnation};
    if (held.rule) {
      counters.refused[static_cast<size_t>(PushRefusal::epoch)] += held.rule->held();
      held.rule = make_rule(kind, held.rule->progress());
    }
    for (auto& [key, tickets] : held.unacknowledged)
      for (const Ticket& t : tickets)
        out.push_back({t.to, Acknowledged{t.ticket, id, Errc::stale, why, held.state.version}});
    held.unacknowledged.clear();
    waiting_pulls -= static_cast<int64_t>(held.pulls.size());
    for (const WaitingPull& w : std::exchange(held.pulls, {}))
      refuse(w.pull, w.to, Errc::stale, why, out);
  }
  for (const PendingSnapshot& s : std::exchange(snapshots, {}))
    out.push_back({s.to, SnapshotDone{s.id, Errc::stale, why, {}}});
}

void Shard::Body::serve(ShardActions& out) {
  state = State::serving;
  for (auto& [id, held] : slices) answer_waiting(held, out);
}

Outcome Shard::set_initial(uint64_t epoch, uint32_t slice, Tensor values, ShardActions& out) {
  Body& b = *body_;
  if (Outcome o = b.fence(epoch, "an initial value"); !o) return o;
  auto it = b.slices.find(slice);
  if (it == b.slices.end())
    return {Errc::invalid_argument, detail::concat("this shard has no slice ", slice)};
  Body::Held& held = it->second;
  if (Outcome o = check_values(held.slice, values, "the initial values"); !o) return o;
  if (held.state.values.defined()) {
    const bool repeated = held.state.version == 0 && same_bits(held.state.values, flat(values));
    if (repeated) return {};
    return {Errc::stale, detail::concat(describe(held.slice), " has values already, of version ",
                                        held.state.version, "; initial values are set once")};
  }
  if (b.state != State::empty)
    return {Errc::stale, detail::concat("the shard is ", to_string(b.state),
                                        "; only an empty one takes initial values")};
  held.state.values = flat(std::move(values));
  if (held.slice.optimizer)
    held.state.optimizer_accumulators =
        zero_accumulators(*held.slice.optimizer, held.slice.dtype, held.slice.size);
  for (const auto& [id, other] : b.slices)
    if (!other.state.values.defined()) return {};
  b.serve(out);
  return {};
}

Outcome Shard::set_epoch(uint64_t epoch, ShardActions& out) {
  Body& b = *body_;
  if (epoch == b.epoch) return {};
  if (epoch < b.epoch) return b.fence(epoch, "the order");
  b.epoch = epoch;
  b.drop_waiting(detail::concat("epoch ", epoch, " has begun; do the step again"), out);
  return {};
}

Outcome Shard::begin_restore(uint64_t epoch, ShardActions& out) {
  Body& b = *body_;
  if (epoch < b.epoch) return b.fence(epoch, "a restore");
  if (epoch == b.epoch && b.state == State::serving && !b.slices.empty())
    return {Errc::stale,
            detail::concat("the shard serves in epoch ", epoch, "; going back wants a higher one")};
  if (Outcome o = set_epoch(epoch, out); !o) return o;
  b.state = State::restoring;
  return {};
}

Outcome Shard::clear(uint64_t epoch, std::vector<ReplicaProgress> replicas, ShardActions& out) {
  Body& b = *body_;
  if (Outcome o = begin_restore(epoch, out); !o) return o;
  try {
    b.set_replicas(ascending(replicas));
  } catch (const Error& e) {
    return {e.code(), e.what()};
  }
  int64_t begins = replicas.empty() ? 0 : replicas[0].next_step;
  for (const ReplicaProgress& replica : replicas) begins = std::min(begins, replica.next_step);
  for (auto& [id, held] : b.slices) {
    held.state = {};
    held.written = {.begins = begins};
  }
  b.state = b.slices.empty() ? State::serving : State::empty;
  return {};
}

Outcome Shard::restore(uint64_t epoch, std::vector<SliceState> states, ShardActions& out) {
  Body& b = *body_;
  if (Outcome o = b.fence(epoch, "a restore"); !o) return o;
  if (b.state == State::serving && !b.slices.empty())
    return {Errc::stale, "the shard serves; order begin_restore in a higher epoch first"};
  struct Ready {
    SliceValues values;
    std::unique_ptr<AggregationRule> rule;
    int64_t begins = 0;
  };
  std::map<uint32_t, Ready> ready;
  for (SliceState& s : states) {
    auto it = b.slices.find(s.slice.id);
    if (it == b.slices.end() || it->second.slice.parameter != s.slice.parameter ||
        it->second.slice.offset != s.slice.offset)
      return {Errc::invalid_argument,
              detail::concat("the restored state has ", describe(s.slice), " as slice ", s.slice.id,
                             ", this shard does not")};
    const Slice& slice = it->second.slice;
    if (Outcome o = check_values(slice, s.values, "the restored values"); !o) return o;
    if (s.version < 0)
      return {Errc::invalid_argument,
              detail::concat("the restored version of ", describe(slice), " is ", s.version)};
    Ready r;
    r.values.version = s.version;
    r.begins = s.next_step;
    r.values.values = flat(std::move(s.values));
    if (slice.optimizer) {
      r.values.optimizer_accumulators =
          zero_accumulators(*slice.optimizer, slice.dtype, slice.size);
      for (auto& [name, tensor] : r.values.optimizer_accumulators)
        for (auto& [given_name, given] : s.optimizer_accumulators)
          if (name == given_name) {
            if (Outcome o = check_values(slice, given, name.c_str()); !o) return o;
            tensor = flat(std::move(given));
          }
      try {
        r.rule = make_rule(b.kind, progress_of(s, b.replica_numbers));
      } catch (const Error& e) {
        return {e.code(), e.what()};
      }
    }
    ready[slice.id] = std::move(r);
  }
  for (auto& [id, held] : b.slices)
    if (!ready.count(id))
      return {Errc::invalid_argument,
              detail::concat("the restored state lacks ", describe(held.slice))};
  for (auto& [id, r] : ready) {
    b.slices.at(id).state = std::move(r.values);
    b.slices.at(id).rule = std::move(r.rule);
    b.slices.at(id).written = {.begins = r.begins};
  }
  b.serve(out);
  return {};
}

Outcome Shard::set_rule(uint64_t epoch, Aggregation rule, std::vector<ReplicaProgress> replicas) {
  Body& b = *body_;
  if (Outcome o = b.fence(epoch, "a rule"); !o) return o;
  for (const auto& [id, held] : b.slices) {
    const bool parked = std::any_of(held.sequences.begin(), held.sequences.end(),
                                    [](const auto& s) { return !s.second.parked.empty(); });
    if (parked || (held.rule && held.rule->held() > 0) ||
        (!held.pulls.empty() && b.state == State::serving))
      return {Errc::invalid_argument,
              detail::concat("the rule changes only between steps, and ", describe(held.slice),
                             " is within step ", held.rule ? held.rule->next_step() : 0)};
  }
  const Aggregation before = std::exchange(b.kind, rule);
  try {
    b.set_replicas(ascending(std::move(replicas)));
  } catch (const Error& e) {
    b.kind = before;
    return {e.code(), e.what()};
  }
  return {};
}

void Shard::Body::refuse_parked(Held& held, int32_t replica, PushRefusal reason,
                                const std::string& why, ShardActions& out) {
  auto it = held.sequences.find(replica);
  if (it == held.sequences.end()) return;
  for (auto& [number, parked] : std::exchange(it->second.parked, {}))
    refuse(parked.push, parked.tickets, reason, Errc::stale, why, out);
}

void Shard::Body::renew(Held& held, int32_t replica, uint64_t incarnation, ShardActions& out) {
  refuse_parked(held, replica, PushRefusal::incarnation,
                detail::concat("replica ", replica, " has a newer incarnation, ", incarnation),
                out);
  held.sequences[replica] = {.incarnation = incarnation};
}

SliceState Shard::Body::image(const Held& held) const {
  SliceState s;
  s.slice = held.slice;
  s.version = held.state.version;
  s.values = held.state.values;
  s.optimizer_accumulators = held.state.optimizer_accumulators;
  if (held.rule) {
    s.next_step = held.rule->next_step();
    s.progress = held.rule->progress();
  }
  return s;
}

void Shard::snapshot(uint64_t epoch, int64_t step, uint64_t id, uint64_t from, ShardActions& out) {
  Body& b = *body_;
  const auto refuse = [&](Errc code, const std::string& text) {
    out.push_back({from, SnapshotDone{id, code, text, {}}});
  };
  if (Outcome o = b.fence(epoch, "a snapshot"); !o) return refuse(o.code, o.text);
  if (b.state != State::serving)
    return refuse(Errc::stale, detail::concat("the shard is ", to_string(b.state)));
  if (b.snapshots.size() >= kSnapshotsMax)
    return refuse(Errc::out_of_memory, detail::concat(kSnapshotsMax, " snapshots wait already"));
  Body::PendingSnapshot pending{.id = id, .to = from, .step = step};
  for (const auto& [number, held] : b.slices) {
    const int when = held.rule ? held.rule->compare_step(step) : 0;
    if (when < 0)
      return refuse(Errc::stale,
                    detail::concat(describe(held.slice), " is at step ", held.rule->next_step(),
                                   ", past the wanted step ", step));
    if (when == 0) pending.captured[number] = b.image(held);
  }
  b.snapshots.push_back(std::move(pending));
  b.finish_snapshots(out);
}

void Shard::Body::capture(const Held& held) {
  for (PendingSnapshot& s : snapshots)
    if (!s.captured.count(held.slice.id) && held.rule->compare_step(s.step) == 0)
      s.captured[held.slice.id] = image(held);
}

void Shard::Body::finish_snapshots(ShardActions& out) {
  for (auto s = snapshots.begin(); s != snapshots.end();) {
    if (s->captured.size() < slices.size()) {
      ++s;
      continue;
    }
    SnapshotDone done{
        .id = s->id, .code = Errc::ok, .text = {}, .state = {epoch, s->step, kind, {}}};
    for (auto& [id, image] : s->captured) {
      // A replica's own progress is more exact than the step that was asked for; untrained slices
      // have none.
      if (!image.slice.optimizer) image.next_step = s->step;
      done.state.slices.push_back(std::move(image));
    }
    out.push_back({s->to, std::move(done)});
    s = snapshots.erase(s);
  }
}

void Shard::forget(uint64_t from) {
  for (auto& [id, held] : body_->slices) {
    const auto gone = static_cast<int64_t>(
        std::erase_if(held.pulls, [&](const Body::WaitingPull& w) { return w.to == from; }));
    body_->waiting_pulls -= gone;
    body_->counters.pulls_refused += gone;
    const auto drop = [&](std::vector<Body::Ticket>& tickets) {
      std::erase_if(tickets, [&](const Body::Ticket& t) { return t.to == from; });
    };
    for (auto& [key, tickets] : held.unacknowledged) drop(tickets);
    for (auto& [replica, sequence] : held.sequences)
      for (auto& [number, parked] : sequence.parked) drop(parked.tickets);
  }
  std::erase_if(body_->snapshots, [&](const Body::PendingSnapshot& s) { return s.to == from; });
}

Shard::State Shard::state() const { return body_->state; }
uint64_t Shard::epoch() const { return body_->epoch; }
Aggregation Shard::rule() const { return body_->kind; }

std::vector<ReplicaProgress> Shard::replicas() const {
  std::vector<ReplicaProgress> out;
  for (const int32_t replica : body_->replica_numbers) {
    ReplicaProgress least{.replica = replica, .next_step = -1};
    for (const auto& [id, held] : body_->slices) {
      if (!held.rule) continue;
      for (const ReplicaProgress& p : held.rule->progress())
        if (p.replica == replica && (least.next_step < 0 || p.next_step < least.next_step))
          least = p;
    }
    least.next_step = std::max<int64_t>(least.next_step, 0);
    out.push_back(least);
  }
  return out;
}

int64_t Shard::Body::held_gradients() const {
  int64_t n = 0;
  for (const auto& [id, held] : slices) {
    if (held.rule) n += held.rule->held();
    for (const auto& [replica, sequence] : held.sequences)
      n += static_cast<int64_t>(sequence.parked.size());
  }
  return n;
}

ShardCounters Shard::counters() const {
  ShardCounters c = body_->counters;
  c.held = body_->held_gradients();
  c.pulls_waiting = body_->waiting_pulls;
  return c;
}

std::vector<Slice> Shard::slices() const {
  std::vector<Slice> out;
  for (const auto& [id, held] : body_->slices) out.push_back(held.slice);
  return out;
}

int64_t Shard::version(uint32_t slice) const {
  auto it = body_->slices.find(slice);
  return it == body_->slices.end() ? -1 : it->second.state.version;
}

Tensor Shard::values(uint32_t slice) const {
  auto it = body_->slices.find(slice);
  return it == body_->slices.end() ? Tensor{} : it->second.state.values;
}

int64_t Shard::bytes() const {
  int64_t n = 0;
  for (const auto& [id, held] : body_->slices)
    n += held.slice.bytes() *
         static_cast<int64_t>(
             1 + (held.slice.optimizer ? optimizer_accumulators(*held.slice.optimizer).size() : 0));
  return n;
}

std::string Shard::waiting_for() const {
  for (const auto& [id, held] : body_->slices) {
    if (body_->state != State::serving) {
      if (body_->waiting_pulls > 0 && !held.state.values.defined())
        return detail::concat("pulls wait for the values of ", describe(held.slice),
                              "; the shard is ", to_string(body_->state));
      continue;
    }
    if (!held.rule) continue;
    std::string replicas;
    for (int32_t replica : held.rule->missing())
      replicas += (replicas.empty() ? "" : ", ") + std::to_string(replica);
    if (!replicas.empty())
      return detail::concat(describe(held.slice), " waits for the gradient of step ",
                            held.rule->next_step(), " of replica ", replicas);
  }
  return {};
}

}  // namespace troupe
