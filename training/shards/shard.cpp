// The requests to a Shard as a whole: initial values, epochs, replicas, restores and captures. Its
// slices take the pushes and pulls.
#include "training/shards/shard.hpp"

#include <algorithm>
#include <optional>

#include "graph/base/fail_point.hpp"
#include "graph/base/mutant.hpp"
#include "graph/optimizer.hpp"

namespace troupe {

Shard::Shard(Spec spec)
    : terms_(std::make_unique<ShardTerms>(ShardTerms{.epoch = spec.epoch,
                                                     .rule = spec.rule,
                                                     .lanes = spec.lanes,
                                                     .memory = spec.memory,
                                                     .skips_bad = spec.skips_bad})) {
  for (Slice& slice : spec.slices) {
    const uint32_t id = slice.id;
    if (!slices_.try_emplace(id, *terms_, std::move(slice)).second)
      throw Error(Errc::invalid_argument, "slice ", id, " is given twice");
  }
  ShardActions none;
  if (const Outcome o = set_replicas(spec.rule, std::move(spec.replicas), none); !o)
    throw Error(o.code, o.text);
  if (slices_.empty()) terms_->state = State::serving;
}

void Shard::set_applied_log(std::function<void(const Applied&)> log) {
  terms_->applied_log = std::move(log);
}

void Shard::set_bad_log(std::function<void(const BadGradient&)> log) {
  terms_->bad_log = std::move(log);
}

void Shard::set_order(std::unique_ptr<const ShardOrder> order) { terms_->order = std::move(order); }

Outcome Shard::fence(uint64_t wanted, const char* what) const {
  if (wanted == terms_->epoch) return {};
  return {Errc::stale, detail::concat(what, " is for epoch ", wanted, ", the shard is in epoch ",
                                      terms_->epoch)};
}

Outcome Shard::set_replicas(const Aggregation& rule, std::vector<ReplicaProgress> replicas,
                            ShardActions& out) {
  std::sort(
      replicas.begin(), replicas.end(),
      [](const ReplicaProgress& a, const ReplicaProgress& b) { return a.replica < b.replica; });
  std::map<uint32_t, std::unique_ptr<AggregationRule>> rules;  // all or none
  try {
    for (const auto& [id, slice] : slices_) {
      if (!slice.slice().optimizer) continue;
      const Aggregation own = rule.of(slice.slice().parameter);
      rules[id] = terms_->make_rule(own, slice.slice(), replicas);
      check_rule(own, *slice.slice().optimizer, describe(slice.slice()));
      if (own.local() && slice.slice().table)
        throw Error(Errc::invalid_argument, describe(slice.slice()), " is a table whose rows are ",
                    "made on first touch, and ", to_string(own),
                    " copies parameters whole in each ",
                    "round; train it with sync, ssp:S or async");
    }
  } catch (const Error& e) {
    return {e.code(), e.what()};
  }
  terms_->rule = rule;
  terms_->skipped.clear();
  terms_->replicas.clear();
  for (const ReplicaProgress& s : replicas) terms_->replicas.insert(s.replica);
  for (auto& [id, made] : rules) slices_.at(id).set_rule(std::move(made), out);
  for (auto& [id, pushes] : terms_->pushes) pushes.keep_only(terms_->replicas);
  return {};
}

void Shard::serve(ShardActions& out) {
  terms_->state = State::serving;
  for (auto& [id, slice] : slices_) slice.answer_waiting(out);
}

HeldSlice* Shard::held(uint32_t slice) {
  const auto it = slices_.find(slice);
  return it == slices_.end() ? nullptr : &it->second;
}
const HeldSlice* Shard::find(uint32_t slice) const {
  const auto it = slices_.find(slice);
  return it == slices_.end() ? nullptr : &it->second;
}

Outcome Shard::set_initial(uint64_t epoch, uint32_t slice, Tensor values, ShardActions& out) {
  if (Outcome o = fence(epoch, "an initial value"); !o) return o;
  HeldSlice* const mine = held(slice);
  if (!mine) return {Errc::invalid_argument, detail::concat("this shard has no slice ", slice)};
  if (Outcome o = mine->set_initial(std::move(values)); !o) return o;
  const bool whole = std::all_of(slices_.begin(), slices_.end(), [](const auto& other) {
    return other.second.values().values.defined();
  });
  if (whole && terms_->state == State::empty) serve(out);
  return {};
}

Outcome Shard::set_epoch(uint64_t epoch, ShardActions& out) {
  if (epoch == terms_->epoch) return {};
  if (epoch < terms_->epoch) return fence(epoch, "the order");
  terms_->epoch = epoch;
  const std::string why = detail::concat("epoch ", epoch, " has begun; do the step again");
  for (auto& [id, slice] : slices_) slice.drop_waiting(why, out);
  terms_->captures.end({Errc::stale, why});
  return {};
}

Outcome Shard::begin_restore(uint64_t epoch, ShardActions& out) {
  if (epoch < terms_->epoch) return fence(epoch, "a restore");
  if (epoch == terms_->epoch && terms_->state == State::serving && !slices_.empty())
    return {Errc::stale,
            detail::concat("the shard serves in epoch ", epoch, "; going back wants a higher one")};
  if (Outcome o = set_epoch(epoch, out); !o) return o;
  terms_->state = State::restoring;
  for (auto& [id, slice] : slices_) slice.clear(0);
  return {};
}

Outcome Shard::clear(uint64_t epoch, const Aggregation& rule, std::vector<ReplicaProgress> replicas,
                     ShardActions& out) {
  if (Outcome o = begin_restore(epoch, out); !o) return o;
  int64_t begins = replicas.empty() ? 0 : replicas[0].next_step;
  for (const ReplicaProgress& replica : replicas) begins = std::min(begins, replica.next_step);
  if (Outcome o = set_replicas(rule, std::move(replicas), out); !o) return o;
  for (auto& [id, slice] : slices_) slice.clear(begins);
  terms_->state = slices_.empty() ? State::serving : State::empty;
  return {};
}

Outcome Shard::restore(uint64_t epoch, std::vector<SliceState> states, ShardActions& out) {
  if (Outcome o = fence(epoch, "a restore"); !o) return o;
  if (terms_->state == State::serving && !slices_.empty())
    return {Errc::stale, "the shard serves; order begin_restore in a higher epoch first"};
  std::map<uint32_t, HeldSlice::Restored> ready;
  for (SliceState& s : states) {
    const uint32_t id = s.slice.id;
    const HeldSlice* const held = find(id);
    if (!held)
      return {Errc::invalid_argument, detail::concat("the restored state has ", describe(s.slice),
                                                     " as slice ", id, ", this shard does not")};
    HeldSlice::Restored restored;
    if (Outcome o = held->check(std::move(s), restored); !o) return o;
    ready[id] = std::move(restored);
  }
  for (const auto& [id, slice] : slices_)
    if (!ready.count(id))
      return {Errc::invalid_argument,
              detail::concat("the restored state lacks ", describe(slice.slice()))};
  for (auto& [id, restored] : ready) slices_.at(id).adopt(std::move(restored));
  serve(out);
  return {};
}

Outcome Shard::set_rule(uint64_t epoch, const Aggregation& rule,
                        std::vector<ReplicaProgress> replicas) {
  if (Outcome o = fence(epoch, "a rule"); !o) return o;
  for (const auto& [id, slice] : slices_)
    if (!slice.between_steps())
      return {Errc::invalid_argument,
              detail::concat("the rule changes only between steps, and ", describe(slice.slice()),
                             " is within step ", slice.rule() ? slice.rule()->next_step() : 0)};
  ShardActions none;
  return set_replicas(rule, std::move(replicas), none);
}

Outcome Shard::want_not_past(int64_t step) const {
  for (const auto& [id, slice] : slices_)
    if (slice.compare_step(step) < 0)
      return {Errc::stale,
              detail::concat(describe(slice.slice()), " is at step ", slice.rule()->next_step(),
                             ", past the wanted step ", step)};
  return {};
}

// All replicas are at the step, so what came before it is over: a gradient that is still held, or
// comes again, never counts.
Outcome Shard::change_rule(uint64_t epoch, int64_t step, const Aggregation& rule,
                           ShardActions& out) {
  if (Outcome o = fence(epoch, "a rule"); !o) return o;
  if (terms_->state != State::serving)
    return {Errc::stale, detail::concat("the shard is ", to_string(terms_->state))};
  std::vector<ReplicaProgress> progress;
  for (const int32_t replica : terms_->replicas)
    progress.push_back({.replica = replica, .next_step = step});
  for (const auto& [id, slice] : slices_) {
    if (!slice.rule()) continue;
    for (const ReplicaProgress& p : slice.rule()->progress())
      if (p.next_step > step)
        return {Errc::stale, detail::concat("replica ", p.replica, " is at step ", p.next_step,
                                            " of ", describe(slice.slice()), ", past step ", step,
                                            ", at which the rule changes")};
  }
  return set_replicas(rule, std::move(progress), out);
}

Outcome Shard::set_rate_scale(uint64_t epoch, int64_t step, double scale) {
  if (Outcome o = fence(epoch, "a rate scale"); !o) return o;
  if (Outcome o = want_not_past(step); !o) return o;
  std::map<uint32_t, Optimizer> scaled;  // all or none
  for (const auto& [id, slice] : slices_) {
    if (!slice.slice().optimizer) continue;
    try {
      scaled[id] = at_rate_scale(*slice.slice().optimizer, scale);
    } catch (const Error& e) {
      return {e.code(), detail::concat(describe(slice.slice()), ": ", e.what())};
    }
  }
  for (auto& [id, optimizer] : scaled) slices_.at(id).set_optimizer(std::move(optimizer));
  terms_->rate_scale = scale;
  return {};
}

void Shard::capture(uint64_t epoch, int64_t step, Captures::Done done) {
  if (const Outcome o = fence(epoch, "a snapshot"); !o) return done(o, {});
  if (terms_->state != State::serving)
    return done({Errc::stale, detail::concat("the shard is ", to_string(terms_->state))}, {});
  if (terms_->captures.full())
    return done({Errc::out_of_memory, detail::concat(Captures::kMax, " snapshots wait already")},
                {});
  if (const Outcome o = want_not_past(step); !o) return done(o, {});
  terms_->captures.add(slices_, {epoch, step, terms_->rule, {}}, std::move(done));
}

void Shard::push(Push p, uint64_t from, ShardActions& out) {
  if (drops_at(FailPoint::shard_push_received)) return;
  HeldSlice* const held = this->held(p.slice);
  const bool known = terms_->replicas.count(p.replica) > 0;
  PushCounts& counts =
      held ? terms_->pushes[p.slice].of(known ? p.replica : PushLedger::kOthers) : terms_->counters;
  ++counts.received;
  if (held) held->count_pushed(p.gradient.byte_size());
  const auto no = [&](PushRefusal reason, Errc code, const std::string& text) {
    counts.refuse(reason);
    const int64_t version = held ? held->values().version : 0;
    out.push_back({from, Acknowledged{p.ticket, p.slice, code, text, version}});
  };
  if (p.epoch != terms_->epoch && !mutant(Mutant::push_of_any_epoch))
    return no(PushRefusal::epoch, Errc::stale,
              detail::concat("a push of epoch ", p.epoch, " came to a shard in epoch ",
                             terms_->epoch, "; take the new routes and do the step again"));
  if (!held)
    return no(PushRefusal::unknown, Errc::invalid_argument,
              detail::concat("this shard has no slice ", p.slice));
  if (!known)
    return no(PushRefusal::unknown, Errc::invalid_argument,
              detail::concat("this shard knows no replica ", p.replica));
  held->push(std::move(p), from, out);
}

void Shard::pull(const Pull& p, uint64_t from, ShardActions& out) {
  ++terms_->counters.pulls;
  const auto no = [&](Errc code, const std::string& text) {
    ++terms_->counters.pulls_refused;
    out.push_back({from, Pulled{p.ticket, p.slice, code, text, 0, {}}});
  };
  if (p.epoch != terms_->epoch && !mutant(Mutant::pull_of_any_epoch))
    return no(Errc::stale,
              detail::concat("a pull of epoch ", p.epoch, " came to a shard in epoch ",
                             terms_->epoch, "; take the new routes and do the step again"));
  HeldSlice* const held = this->held(p.slice);
  if (!held) return no(Errc::invalid_argument, detail::concat("this shard has no slice ", p.slice));
  if (p.step >= 0 && !terms_->replicas.count(p.replica))
    return no(Errc::invalid_argument, detail::concat("this shard knows no replica ", p.replica));
  held->pull(p, from, out);
}

bool Shard::puts_together(const Pull& p) const {
  const HeldSlice* const held = find(p.slice);
  return held && p.epoch == terms_->epoch && terms_->replicas.count(p.replica) > 0 &&
         held->puts_together(p);
}

void Shard::forget(uint64_t from) {
  for (auto& [id, slice] : slices_) slice.forget(from);
}

Shard::State Shard::state() const { return terms_->state; }
uint64_t Shard::epoch() const { return terms_->epoch; }
Aggregation Shard::rule() const { return terms_->rule; }
double Shard::rate_scale() const { return terms_->rate_scale; }

std::vector<ReplicaProgress> Shard::replicas() const {
  std::map<int32_t, ReplicaProgress> least;
  for (const auto& [id, slice] : slices_) {
    if (!slice.rule()) continue;
    for (const ReplicaProgress& p : slice.rule()->progress())
      if (const auto [mine, fresh] = least.try_emplace(p.replica, p);
          !fresh && p.next_step < mine->second.next_step)
        mine->second = p;
  }
  std::vector<ReplicaProgress> out;
  for (const int32_t replica : terms_->replicas) {
    const auto mine = least.find(replica);
    out.push_back(mine != least.end() ? mine->second
                                      : ReplicaProgress{.replica = replica, .next_step = 0});
  }
  return out;
}

ShardCounters Shard::counters() const {
  ShardCounters c = terms_->counters;
  for (const auto& [id, slice] : slices_) {
    for (const auto& [replica, counts] : terms_->pushes[id].rows()) c += counts;
    c.held += slice.held_gradients();
  }
  return c;
}

std::vector<PushRow> Shard::pushes() const {
  std::vector<PushRow> out;
  for (const auto& [id, slice] : slices_)
    for (const auto& [replica, counts] : terms_->pushes[id].rows())
      out.push_back({id, replica, counts, slice.held_gradients(replica)});
  if (terms_->counters.received > 0) out.push_back({.counts = terms_->counters});
  return out;
}

std::vector<Slice> Shard::slices() const {
  std::vector<Slice> out;
  for (const auto& [id, slice] : slices_) out.push_back(slice.slice());
  return out;
}

int64_t Shard::version(uint32_t slice) const {
  const HeldSlice* const held = find(slice);
  return held ? held->values().version : -1;
}

Tensor Shard::values(uint32_t slice) const {
  const HeldSlice* const held = find(slice);
  return held ? held->values().values : Tensor{};
}

std::string Shard::waiting_for() const {
  for (const auto& [id, slice] : slices_) {
    if (terms_->state != State::serving) {
      if (terms_->counters.pulls_waiting > 0 && !slice.values().values.defined())
        return detail::concat("pulls wait for the values of ", describe(slice.slice()),
                              "; the shard is ", to_string(terms_->state));
      continue;
    }
    if (!slice.rule()) continue;
    std::string replicas;
    for (int32_t replica : slice.rule()->missing())
      replicas += (replicas.empty() ? "" : ", ") + std::to_string(replica);
    if (!replicas.empty())
      return detail::concat(describe(slice.slice()), " waits for the gradient of step ",
                            slice.rule()->next_step(), " of replica ", replicas);
  }
  return {};
}

}  // namespace troupe
