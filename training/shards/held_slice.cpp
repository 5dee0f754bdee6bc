// The pushes and pulls of a slice, the updates they cause, and their answers.
#include "training/shards/held_slice.hpp"

#include <algorithm>

#include "devices/failure.hpp"
#include "graph/base/fail_point.hpp"
#include "graph/base/mutant.hpp"
#include "graph/optimizer.hpp"
#include "training/parameters/write_kind.hpp"
#include "training/rules/row_slices.hpp"
#include "training/rules/row_store.hpp"
#include "training/rules/rule_local.hpp"
#include "training/shards/slice_fit.hpp"
#include "training/shards/slice_values.hpp"

namespace troupe {
namespace {

// The step at which each of the shard's replicas continues: its own progress, or the slowest one's.
std::vector<ReplicaProgress> progress_of(const SliceState& state,
                                         const std::set<int32_t>& replicas) {
  std::map<int32_t, ReplicaProgress> known;
  for (const ReplicaProgress& p : state.progress) known.insert_or_assign(p.replica, p);
  std::vector<ReplicaProgress> out;
  for (const int32_t replica : replicas) {
    const auto mine = known.find(replica);
    out.push_back(mine != known.end()
                      ? mine->second
                      : ReplicaProgress{.replica = replica, .next_step = state.next_step});
  }
  return out;
}

Gradient copy_of(Gradient gradient) {  // the caller has the other owner
  make_writable(gradient.values);
  if (gradient.by_rows()) make_writable(gradient.indices);
  return gradient;
}

}  // namespace

const char* to_string(ShardState state) {
  return state == ShardState::empty       ? "empty"
         : state == ShardState::restoring ? "restoring"
                                          : "serving";
}

HeldSlice::HeldSlice(ShardTerms& terms, Slice slice)
    : terms_(terms),
      slice_(std::move(slice)),
      optimizer_(slice_.optimizer),
      pushes_(terms.pushes[slice_.id]) {
  check_slice(slice_);
}

void HeldSlice::clear(int64_t next_step) {
  values_ = {};
  if (!mutant(Mutant::coded_values_kept)) travelling_ = {};
  written_ = WrittenValues(next_step);
}

Outcome HeldSlice::set_initial(Tensor values) {
  if (Outcome o = check_values(slice_, values, "the initial values"); !o) return o;
  if (values_.values.defined()) {
    const bool repeated = values_.version == 0 && same_bits(values_.values, flat(values));
    if (repeated) return {};
    return {Errc::stale, detail::concat(describe(slice_), " has values already, of version ",
                                        values_.version, "; initial values are set once")};
  }
  if (terms_.state != ShardState::empty)
    return {Errc::stale, detail::concat("the shard is ", to_string(terms_.state),
                                        "; only an empty one takes initial values")};
  values_ = first_values(slice_, terms_.rule, terms_.memory, std::move(values));
  return {};
}

Outcome HeldSlice::check(SliceState&& state, Restored& out) const {
  if (slice_.parameter != state.slice.parameter || slice_.offset != state.slice.offset)
    return {Errc::invalid_argument,
            detail::concat("the restored state has ", describe(state.slice), " as slice ",
                           state.slice.id, ", this shard does not")};
  out.next_step = state.next_step;
  if (Outcome o = restored_values(slice_, terms_.rule, terms_.memory, state, out.values); !o)
    return o;
  if (!slice_.optimizer) return {};
  try {
    const std::string& name = mutant(Mutant::own_rule_ignored) ? "" : slice_.parameter;
    out.rule = terms_.make_rule(terms_.rule.of(name), slice_, progress_of(state, terms_.replicas));
  } catch (const Error& e) {
    return {e.code(), e.what()};
  }
  return {};
}

void HeldSlice::adopt(Restored restored) {
  values_ = std::move(restored.values);
  rule_ = std::move(restored.rule);
  written_ = WrittenValues(restored.next_step);
}

void HeldSlice::set_rule(std::unique_ptr<AggregationRule> rule, ShardActions& out) {
  rule_ = std::move(rule);
  const std::string why =
      detail::concat("the rule changed to ", to_string(rule_->kind()), " at step ",
                     rule_->next_step(), ", before this gradient counted");
  for (const auto& [from, tickets] : std::exchange(unacknowledged_, {}))
    refuse(from.first, tickets, PushRefusal::step, Errc::stale, why, out);
  auto fresh = fresh_accumulators(terms_.rule, slice_);
  const auto same = [](const auto& a, const auto& b) { return a.first == b.first; };
  auto& present = values_.optimizer_accumulators;
  if (values_.values.defined() &&
      !std::equal(present.begin(), present.end(), fresh.begin(), fresh.end(), same)) {
    present = std::move(fresh);  // inner and outer optimizers take turns, and begin anew
    values_.accumulators_since = values_.version;
  }
  // Steps are counted anew, so it is no step's version.
  values_.previous_version = -1;
  if (!aggregation().by_steps()) values_.previous.reset();
  order_.keep_only(terms_.replicas);
  readers_.count_steps_anew();
  answer_waiting(out);
}

void HeldSlice::drop_waiting(const std::string& why, ShardActions& out) {
  std::vector<PushOrder::Refused> parked;
  order_.begin_again(why, parked);
  refuse(parked, out);
  readers_.clear();
  if (rule_) rule_ = terms_.make_rule(rule_->kind(), slice_, rule_->progress());
  for (const auto& [from, tickets] : std::exchange(unacknowledged_, {}))
    refuse(from.first, tickets, PushRefusal::epoch, Errc::stale, why, out);
  for (const WaitingPulls::Waiting& w : pulls_.take()) {
    --terms_.counters.pulls_waiting;
    refuse(w.pull, w.to, Errc::stale, why, out);
  }
}

void HeldSlice::forget(uint64_t from) {
  const int64_t gone = pulls_.forget(from);
  terms_.counters.pulls_waiting -= gone;
  terms_.counters.pulls_refused += gone;
  for (auto& [key, tickets] : unacknowledged_)
    std::erase_if(tickets, [&](const Ticket& t) { return t.to == from; });
  order_.forget(from);
}

SliceState HeldSlice::image() const {
  SliceState s;
  s.slice = slice_;
  s.version = values_.version;
  s.values = values_.values;
  s.optimizer_accumulators = values_.optimizer_accumulators;
  s.accumulators_since = values_.accumulators_since;
  if (values_.table) s.rows = values_.table->image();
  if (rule_) {
    s.next_step = rule_->next_step();
    s.progress = rule_->progress();
    if (mutant(Mutant::image_a_step_ahead)) ++s.next_step;
    for (ReplicaProgress& p : s.progress) {
      if (mutant(Mutant::image_a_step_ahead)) ++p.next_step;
      if (mutant(Mutant::image_without_window)) p.counted = ~uint64_t{0};
    }
  }
  return s;
}

bool HeldSlice::between_steps() const {
  const bool pulls_wait = !pulls_.empty() && terms_.state == ShardState::serving;
  return held_gradients() == 0 && !pulls_wait;
}

int64_t HeldSlice::held_gradients() const { return (rule_ ? rule_->held() : 0) + order_.parked(); }

int64_t HeldSlice::held_gradients(int32_t replica) const {
  const auto first = unacknowledged_.lower_bound({replica, 0});
  const auto last = std::find_if(first, unacknowledged_.end(),
                                 [&](const auto& held) { return held.first.first != replica; });
  return std::distance(first, last) + order_.parked(replica);
}

void HeldSlice::acknowledge(const Tickets& tickets, Errc code, const std::string& text,
                            ShardActions& out) {
  for (const Ticket& t : tickets)
    out.push_back({t.to, Acknowledged{t.ticket, slice_.id, code, text, values_.version}});
}

void HeldSlice::refuse(int32_t replica, const Tickets& tickets, PushRefusal reason, Errc code,
                       const std::string& text, ShardActions& out) {
  pushes_.of(replica).refuse(reason);
  acknowledge(tickets, code, text, out);
}

void HeldSlice::refuse(const Pull& pull, uint64_t to, Errc code, const std::string& text,
                       ShardActions& out) {
  ++terms_.counters.pulls_refused;
  out.push_back({to, Pulled{pull.ticket, pull.slice, code, text, 0, {}}});
}

void HeldSlice::refuse(const std::vector<PushOrder::Refused>& refused, ShardActions& out) {
  for (const PushOrder::Refused& r : refused)
    refuse(r.replica, r.tickets, r.reason, Errc::stale, r.text, out);
}

void HeldSlice::push(Push&& p, uint64_t from, ShardActions& out) {
  if (p.codec != Codec::none)
    p.gradient = decoded(p, slice_, terms_.memory);
  else if (p.write == 0 || writes_rows(write_kind(p.write)))
    p.gradient = unpack_rows(std::move(p.gradient), slice_.dtype);
  const auto no = [&](PushRefusal reason, Errc code, const std::string& text) {
    refuse(p.replica, {{from, p.ticket}}, reason, code, text, out);
  };
  if (!rule_ && p.write == 0)
    return no(PushRefusal::type, Errc::invalid_argument,
              detail::concat(describe(slice_), " is not trained and takes no gradients"));
  if (rule_ && p.write != 0)
    return no(PushRefusal::type, Errc::invalid_argument,
              detail::concat(describe(slice_),
                             " is trained, so gradients alone change it; write to a parameter that "
                             "no gradient is pushed to"));
  if (rule_ && terms_.rule.local() && p.number == 0)
    return no(PushRefusal::type, Errc::invalid_argument,
              detail::concat("under ", to_string(terms_.rule), " replica ", p.replica,
                             " pushes the change of ", describe(slice_),
                             " over a round, and this is a gradient; read the parameter and push "
                             "its gradient in one process, in every step"));
  if (rule_ && !terms_.rule.local() && p.number > 0)
    return no(PushRefusal::step, Errc::stale,
              detail::concat("the change of ", describe(slice_), " over ", p.number,
                             " local steps came when the rule was ", to_string(terms_.rule)));
  if (!p.gradient.defined() && p.write == 0 && p.step >= 0 && p.sequence >= 0)
    return ask_again(p, {from, p.ticket}, out);
  if (const Outcome fits = check_push(slice_, p, values_.read); !fits)
    return no(PushRefusal::type, fits.code, fits.text);
  if (terms_.state != ShardState::serving)
    return no(PushRefusal::not_serving, Errc::stale,
              detail::concat("the shard is ", to_string(terms_.state),
                             "; do the step again when it serves"));
  const uint64_t newest = order_.incarnation(p.replica);
  if (p.incarnation < newest && !mutant(Mutant::push_of_any_incarnation))
    return no(PushRefusal::incarnation, Errc::stale,
              detail::concat("incarnation ", p.incarnation, " of replica ", p.replica,
                             " was replaced by ", newest));
  std::vector<PushOrder::Refused> refused;
  if (p.incarnation > newest) {
    order_.renew(p.replica, p.incarnation, refused);
    refuse(std::exchange(refused, {}), out);
    readers_.begins_anew(p.replica);
  }
  if (p.step < 0 || p.sequence < 0)
    return no(PushRefusal::step, Errc::invalid_argument,
              detail::concat("replica ", p.replica, " pushed step ", p.step, ", sequence ",
                             p.sequence, "; both count from 0"));
  const Ticket ticket{from, p.ticket};
  const int32_t replica = p.replica;
  const PushOrder::Place place = order_.place(p, ticket, slice_, refused);
  refuse(refused, out);
  if (place == PushOrder::Place::parked) fail_point(FailPoint::shard_push_parked);
  if (place == PushOrder::Place::parked && mutant(Mutant::ack_parked))
    acknowledge({ticket}, Errc::ok, {}, out);
  if (place == PushOrder::Place::repeated) ++pushes_.of(replica).duplicate;
  if (place < PushOrder::Place::before) return;
  accept(std::move(p), {ticket}, out);
  if (place == PushOrder::Place::before) return;
  while (std::optional<PushOrder::Waiting> parked = order_.done(replica))
    accept(std::move(parked->push), std::move(parked->tickets), out);
}

bool HeldSlice::known(const Push& p, const Tickets& tickets, ShardActions& out) {
  const AggregationRule::PushVerdict verdict = rule_->look(p.replica, p.step);
  switch (verdict.kind) {
    case AggregationRule::PushVerdict::refused:
      refuse(p.replica, tickets, PushRefusal::step, verdict.code, verdict.text, out);
      return true;
    case AggregationRule::PushVerdict::late:
      refuse(p.replica, tickets, PushRefusal::late, Errc::ok, {}, out);
      return true;
    case AggregationRule::PushVerdict::applied:
      ++pushes_.of(p.replica).duplicate;
      acknowledge(tickets, Errc::ok, {}, out);
      return true;
    case AggregationRule::PushVerdict::waiting:
      ++pushes_.of(p.replica).duplicate;
      for (const Ticket& t : tickets) add(unacknowledged_[{p.replica, p.step}], t);
      return true;
    case AggregationRule::PushVerdict::kept:
      break;
  }
  return false;
}

void HeldSlice::ask_again(const Push& p, const Ticket& ticket, ShardActions& out) {
  if (terms_.state == ShardState::serving) {
    if (Tickets* const parked = order_.parked(p)) {
      ++pushes_.of(p.replica).duplicate;
      return add(*parked, ticket);
    }
    if (order_.passed(p) && known(p, {ticket}, out)) return;
  }
  refuse(
      p.replica, {ticket}, PushRefusal::gap, Errc::stale,
      detail::concat("the gradient of ", describe(slice_), " by replica ", p.replica, " in step ",
                     p.step, " was given to the shard once and has not counted; do the step again"),
      out);
}

void HeldSlice::write(const Push& p, const Tickets& tickets, ShardActions& out) {
  if (const auto other = written_.other_writer(p, aggregation()))
    return refuse(p.replica, tickets, PushRefusal::unknown, Errc::invalid_argument,
                  detail::concat(describe(slice_), " is written by replica ", *other,
                                 " and by replica ", p.replica,
                                 ": under the synchronous rule one replica alone writes to a "
                                 "parameter, so that its values do not depend on who was first; "
                                 "let replica 0 do it, or train asynchronously"),
                  out);
  if (const std::string why = written_.too_old(p, aggregation()); !why.empty())
    return refuse(p.replica, tickets, PushRefusal::step, Errc::stale, why, out);
  if (written_.has(p)) {
    ++pushes_.of(p.replica).duplicate;
  } else {
    if (!written_.write(p, aggregation(), values_)) ++terms_.counters.copies;
    ++terms_.counters.updates;
    ++pushes_.of(p.replica).applied;
  }
  acknowledge(tickets, Errc::ok, {}, out);
}

void HeldSlice::accept(Push&& p, Tickets tickets, ShardActions& out) {
  if (p.write != 0) return write(p, tickets, out);
  end_steps_before(std::min(p.first, p.step), p.replica, out);
  if (known(p, tickets, out)) return;
  const int64_t steps = std::max<int64_t>(1, rule_->local_steps(rule_->next_step()));
  if (p.number > 0 && p.number != steps)
    return refuse(p.replica, tickets, PushRefusal::type, Errc::invalid_argument,
                  detail::concat("the change of ", describe(slice_), " by replica ", p.replica,
                                 " is over ", p.number, " local steps, and its round has ", steps),
                  out);
  if (const auto found = find_not_finite(p.gradient, terms_.lanes)) {
    const std::string element = detail::concat(*found, " of ", describe(slice_));
    if (!terms_.skips_bad)
      return refuse(p.replica, tickets, PushRefusal::not_finite, Errc::bad_data,
                    detail::concat("the gradient of ", slice_.parameter, " by replica ", p.replica,
                                   " in step ", p.step, " is not finite: ", element,
                                   "; look at the data of that step, lower the learning rate, or "
                                   "add check_finite() to find the op"),
                    out);
    const int64_t count = ++terms_.skipped[p.replica];
    if (terms_.bad_log)
      terms_.bad_log({slice_.parameter, p.replica, p.step, element,
                      tickets.empty() ? 0 : tickets.front().to, count});
    if (!mutant(Mutant::bad_gradient_taken)) p.gradient = {};
  }
  if (const Outcome room = reserve_rows(values_, p.gradient); !room)
    return refuse(p.replica, tickets, PushRefusal::memory, room.code, room.text, out);
  if (mutant(Mutant::ack_before_apply)) acknowledge(tickets, Errc::ok, {}, out);
  unacknowledged_[{p.replica, p.step}] = std::move(tickets);
  const int64_t open = rule_->open_to();
  rule_->push({p.replica, p.step, p.incarnation, std::move(p.gradient), steps});
  update_while_due(open, out);
}

void HeldSlice::end_steps_before(int64_t first, int32_t replica, ShardActions& out) {
  if (!rule_ || first <= 0) return;
  const int64_t open = rule_->open_to();
  const bool due = rule_->go_on(replica, first);
  readers_.ended_before(replica, first);
  if (skip(out) || due) update_while_due(open, out);
  if (rule_->open_to() != open) answer_waiting(out);
  free_previous();
}

// Frees the values before the newest update once no replica can read them: their block is then free
// for the next gradient. Memory of others stays, as the next update writes there.
void HeldSlice::free_previous() {
  SliceValues& s = values_;
  if (!aggregation().by_steps() || !fills_block_of(terms_.memory, s.previous)) return;
  if (!readers_.are_past(rule_->next_step(), terms_.replicas)) return;
  s.previous.reset();
  s.previous_version = -1;
}

bool HeldSlice::skip(ShardActions& out) {
  std::vector<Contribution> lost;
  const std::optional<int32_t> left = rule_->skip(lost);
  if (!left) return false;
  for (const Contribution& c : lost) {
    const auto tickets = unacknowledged_.extract({c.replica, c.step});
    const std::string text = detail::concat(
        "the gradient of ", describe(slice_), " of replica ", c.replica, " for step ", c.step,
        " waited for that of replica ", *left,
        ", which has gone on without one: its run failed, or pushes other parameters; run the step "
        "again in all replicas, and push the same parameters in each");
    refuse(c.replica, tickets ? tickets.mapped() : Tickets{}, PushRefusal::step, Errc::stale, text,
           out);
  }
  answer_waiting(out);
  terms_.captures.moved(*this);
  return true;
}

void HeldSlice::update_while_due(int64_t open, ShardActions& out) {
  std::vector<Contribution> gradients;
  do {
    while (rule_->take(gradients)) {
      update(gradients, out);
      gradients.clear();  // frees their memory before the answers go out
      free_previous();
      if (rule_->open_to() != open) answer_waiting(out);
      open = rule_->open_to();
      terms_.captures.moved(*this);
    }
  } while (skip(out));
}

void HeldSlice::update(std::vector<Contribution>& gradients, ShardActions& out) {
  fail_point(FailPoint::shard_apply_before);
  AppliedUpdate applied{.epoch = terms_.epoch,
                        .slice = slice_.id,
                        .steps = gradients.at(0).steps,
                        .from = {},
                        .rule = aggregation()};
  std::erase_if(gradients, [&](const Contribution& c) {
    if (c.gradient.defined()) return false;
    applied.skipped.push_back({c.replica, c.step, c.incarnation});
    return true;
  });
  const int64_t stale = readers_.note_staleness(gradients, values_.version, use_.staleness);
  std::optional<Optimizer> other;
  if (aggregation().damped && stale > 0)
    other = at_rate_scale(*optimizer_, 1.0 / static_cast<double>(1 + stale));
  if (aggregation().local()) other = outer_optimizer(aggregation());
  const Optimizer& optimizer = other ? *other : *optimizer_;
  if (terms_.applied_log) {
    applied.optimizer = optimizer;
    for (const Contribution& c : gradients) {
      applied.from.push_back({c.replica, c.step, c.incarnation});
      applied.gradients.push_back(copy_of(c.gradient));
    }
  }
  if (gradients.empty())
    pass_update(aggregation().by_steps(), values_);
  else if (!apply_mean(optimizer, gradients, aggregation().by_steps(), values_,
                       {terms_.lanes, room_of(gradients[0].gradient, terms_.memory),
                        terms_.memory.segments}))
    ++terms_.counters.copies;
  values_.version += applied.steps - 1;  // schedules count local steps, too
  ++terms_.counters.updates;
  applied.version = values_.version;
  if (terms_.applied_log) terms_.applied_log(applied);
  fail_point(FailPoint::shard_apply_before_ack);
  const auto end = [&](int32_t replica, int64_t step) {
    const auto tickets = unacknowledged_.extract({replica, step});
    if (!tickets.empty()) acknowledge(tickets.mapped(), Errc::ok, {}, out);
  };
  for (const Contribution& c : gradients) {
    PushCounts& counts =
        pushes_.of(mutant(Mutant::merged_for_first) ? gradients[0].replica : c.replica);
    ++(gradients.size() == 1 ? counts.applied : counts.merged);
    end(c.replica, c.step);
  }
  for (const AppliedUpdate::From& bad : applied.skipped) {
    pushes_.of(bad.replica).refuse(PushRefusal::not_finite);
    end(bad.replica, bad.step);
  }
}

void HeldSlice::pull(const Pull& p, uint64_t from, ShardActions& out) {
  if (p.codec != Codec::none && !may_be_coded(slice_, p))
    return refuse(p, from, Errc::invalid_argument,
                  detail::concat("values of ", describe(slice_), ", which are ", slice_.dtype,
                                 ", do not travel in codec ", int{p.codec}),
                  out);
  if ((slice_.table || p.rows.defined()) && !may_name_rows(slice_, p))
    return refuse(p, from, Errc::invalid_argument, no_rows(slice_, p), out);
  if (p.step >= 0) end_steps_before(std::min(p.first, p.step), p.replica, out);
  if (answer(p, from, out)) {
    if (terms_.order && rule_) update_while_due(rule_->open_to(), out);
    return;
  }
  if (p.rows.defined() && !names_rows(slice_, p))
    return refuse(p, from, Errc::invalid_argument, no_rows(slice_, p), out);
  if (pulls_.has(from, p)) {  // sent again; one answer is enough
    ++terms_.counters.pulls_refused;
    return;
  }
  if (terms_.counters.pulls_waiting >= kWaitingPullsMax)
    return refuse(p, from, Errc::out_of_memory,
                  detail::concat(kWaitingPullsMax, " pulls wait already; ask again later"), out);
  pulls_.add(p, from);
  ++terms_.counters.pulls_waiting;
}

AggregationRule::PullVerdict HeldSlice::verdict(const Pull& p) const {
  return rule_ ? rule_->pull(p.replica, p.step)
               : written_.verdict(p.replica, p.step, aggregation(), slice_);
}

bool HeldSlice::puts_together(const Pull& p) const {
  if (terms_.state != ShardState::serving || p.step < 0) return false;  // answered later, or brief
  if (rule_ ? !values_.previous_rows.defined() : written_.has_before()) return false;
  return verdict(p).kind == AggregationRule::PullVerdict::previous;
}

bool HeldSlice::answer(const Pull& p, uint64_t from, ShardActions& out) {
  if (terms_.state != ShardState::serving) return false;
  using Verdict = AggregationRule::PullVerdict;
  Verdict verdict = this->verdict(p);
  if (verdict.kind == Verdict::previous && rule_ && values_.previous_version < 0)
    verdict = {Verdict::gone,
               detail::concat("the values of step ", p.step, " of ", describe(slice_),
                              " are older than what the shard was restored from, or were let go "
                              "as every replica has said that it is over")};
  if (verdict.kind == Verdict::wait) return false;
  if (verdict.kind == Verdict::gone) {
    refuse(p, from, verdict.code, verdict.text, out);
    return true;
  }
  const bool previous = verdict.kind == Verdict::previous;
  Pulled answer{p.ticket, p.slice, Errc::ok, {}, values_.version, {}};
  if (previous) answer.version = rule_ ? values_.previous_version : written_.version_before();
  if (rule_ && p.step >= 0) answer.local_steps = rule_->local_steps(p.step);
  answer.rate_scale = terms_.rate_scale;
  if (answer.version == p.have_version && !p.rows.defined()) {
    ++terms_.counters.pulls_unchanged;
  } else {
    const Failure failed = failure_of([&] {
      fail_point(FailPoint::shard_pull_before_answer);
      if (values_.table) {
        answer.values = table_rows(slice_, p, values_, previous && rule_);
        return;
      }
      answer.values = !previous ? values_.values
                      : rule_   ? previous_values(values_)
                                : written_.before(values_.values);
      if (p.codec != Codec::none)
        answer.values = travelling_.get(answer.values, answer.version, p.codec, terms_.memory);
      if (p.rows.defined()) answer.values = take_rows(answer.values, p.rows, p.row_size);
    });
    if (failed.code == Errc::internal) throw InternalError(failed.text);
    if (failed.code != Errc::ok) {  // nothing has changed, so the shard lives on
      refuse(p, from, failed.code,
             detail::concat("the answer to a pull of ", describe(slice_), ": ", failed.text), out);
      return true;
    }
    if (p.rows.defined() && !answer.values.defined()) {
      refuse(p, from, Errc::invalid_argument, no_rows(slice_, p), out);
      return true;
    }
    note_read(p, answer);
  }
  if (p.step >= 0) readers_.pulled(p.replica, answer.version);
  if (p.step >= 0 && rule_ && terms_.order) rule_->pulled(p.replica, p.step);
  if (answer.values.defined()) use_.pulled_bytes += answer.values.byte_size();
  ++terms_.counters.pulls_answered;
  out.push_back({from, std::move(answer)});
  return true;
}

// Notes the rows of a pull for the push that is likely to follow. A local reader still holds the
// index tensor; a remote request's tensor has no other owner. Keeps the values only if the next
// update must preserve them.
void HeldSlice::note_read(const Pull& p, const Pulled& answer) {
  if (!rule_ || !p.rows.defined() || p.rows.unique() || values_.table) return;
  const bool kept = aggregation() == Aggregation::sync && terms_.replicas.size() == 1 &&
                    answer.version == values_.version;
  values_.read = {p.replica,     p.step, p.rows, p.row_size, kept ? answer.values : Tensor{},
                  answer.version};
}

void HeldSlice::answer_waiting(ShardActions& out) {
  for (const WaitingPulls::Waiting& w : pulls_.take()) {
    ++terms_.counters.pull_looks;
    if (!answer(w.pull, w.to, out))
      pulls_.add(w.pull, w.to);
    else
      --terms_.counters.pulls_waiting;
  }
}

}  // namespace troupe
