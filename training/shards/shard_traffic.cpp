// Pushes and pulls of a Shard, the updates they cause, and their answers.
#include <algorithm>

#include "training/rules/pool_block.hpp"
#include "training/rules/row_slices.hpp"
#include "training/shards/shard_body.hpp"
#include "training/parameters/write_kind.hpp"
#include "troupe/op.hpp"
#include "troupe/ops/parameters.hpp"

namespace troupe {

namespace {

// `read`: rows whose indices a read has checked. They are checked again in another step, as a
// program may have broken its promise not to write to fed tensors.
bool takes(const Slice& slice, const RowPush& p, const RowsRead& read) {
  const Tensor& g = p.gradient;
  if (p.rows.defined())
    return p.write == 0 && are_like_rows(p.rows, g, slice.dtype, slice.size) &&
           ((read.has(p.rows, g.dim(1)) && read.replica == p.replica && read.step == p.step) ||
            are_rows(p.rows.values<int64_t>(), slice.size / g.dim(1)));
  const bool all = g.on_host() && g.dtype() == slice.dtype && g.size() == slice.size;
  const auto rows = [&] { return are_packed_rows(g, slice.dtype, slice.size); };
  switch (p.write) {
    case 0:
      return all || rows();
    case write_code(ParameterWrite::assign):
      return all;
    case write_code(ParameterWrite::add):
      return all && slice.dtype != DType::boolean;
    case write_code(ParameterWrite::assign_rows):
      return rows();
    case write_code(ParameterWrite::add_rows):
      return rows() && slice.dtype != DType::boolean;
  }
  return false;
}

// Describes the row of a push that is outside of the slice; empty if there is none, or if the push
// is not of rows.
std::string rows_outside(const Slice& slice, const RowPush& p) {
  if (!p.rows.defined()) return row_outside(p.gradient, slice.size, describe(slice));
  if (!are_like_rows(p.rows, p.gradient, slice.dtype, slice.size)) return {};
  return index_outside(p.rows.values<int64_t>(), slice.size / p.gradient.dim(1), describe(slice));
}

// True if these indices have the type and row size to name rows of the slice; has_rows() checks
// their values.
bool may_name_rows(const Slice& slice, const Pull& p) {
  if (!p.rows.on_host() || p.rows.dtype() != DType::i64 || p.rows.ndim() != 1) return false;
  return p.row_size >= 1 && slice.size % p.row_size == 0;
}
bool has_rows(const Slice& slice, const Pull& p) {
  return are_rows(p.rows.values<int64_t>(), slice.size / p.row_size);
}

std::string no_rows(const Slice& slice, const Pull& p) {
  if (p.rows.dtype() == DType::i64 && p.row_size > 0) {
    std::string outside =
        index_outside(p.rows.values<int64_t>(), slice.size / p.row_size, describe(slice));
    if (!outside.empty()) return outside;
  }
  return detail::concat("a pull of rows of ", p.row_size, " elements does not fit ",
                        describe(slice), ", which has ", slice.size);
}

}  // namespace

void Shard::push(Push push, uint64_t from, ShardActions& out) {
  body_->push(RowPush{std::move(push)}, from, out);
}
void Shard::push(RowPush push, uint64_t from, ShardActions& out) {
  body_->push(std::move(push), from, out);
}
void Shard::pull(const Pull& pull, uint64_t from, ShardActions& out) {
  body_->pull(pull, from, out);
}

bool Shard::puts_together(const Pull& pull) const { return body_->puts_together(pull); }

void Shard::Body::add_ticket(std::vector<Ticket>& tickets, Ticket ticket) {
  if (std::find(tickets.begin(), tickets.end(), ticket) != tickets.end()) return;
  if (tickets.size() >= kTicketsMax) tickets.erase(tickets.begin());
  tickets.push_back(ticket);
}

void Shard::Body::refuse(const Push& push, const std::vector<Ticket>& tickets, PushRefusal reason,
                         Errc code, const std::string& text, ShardActions& out) {
  ++counters.refused[static_cast<size_t>(reason)];
  auto it = slices.find(push.slice);
  const int64_t version = it == slices.end() ? 0 : it->second.state.version;
  for (const Ticket& t : tickets)
    out.push_back({t.to, Acknowledged{t.ticket, push.slice, code, text, version}});
}

void Shard::Body::refuse(const Pull& pull, uint64_t to, Errc code, const std::string& text,
                         ShardActions& out) {
  ++counters.pulls_refused;
  out.push_back({to, Pulled{pull.ticket, pull.slice, code, text, 0, {}}});
}

void Shard::Body::push(RowPush&& p, uint64_t from, ShardActions& out) {
  ++counters.received;
  const auto no = [&](PushRefusal reason, Errc code, const std::string& text) {
    refuse(p, {{from, p.ticket}}, reason, code, text, out);
  };
  if (p.epoch != epoch)
    return no(PushRefusal::epoch, Errc::stale,
              detail::concat("a push of epoch ", p.epoch, " came to a shard in epoch ", epoch,
                             "; take the new routes and do the step again"));
  auto it = slices.find(p.slice);
  if (it == slices.end())
    return no(PushRefusal::unknown, Errc::invalid_argument,
              detail::concat("this shard has no slice ", p.slice));
  Held& held = it->second;
  if (!replica_numbers.count(p.replica))
    return no(PushRefusal::unknown, Errc::invalid_argument,
              detail::concat("this shard knows no replica ", p.replica));
  if (!held.rule && p.write == 0)
    return no(PushRefusal::type, Errc::invalid_argument,
              detail::concat(describe(held.slice), " is not trained and takes no gradients"));
  if (held.rule && p.write != 0)
    return no(PushRefusal::type, Errc::invalid_argument,
              detail::concat(describe(held.slice),
                             " is trained, so gradients alone change it; write to a parameter that "
                             "no gradient is pushed to"));
  if (!p.gradient.defined() && p.write == 0 && p.step >= 0 && p.sequence >= 0)
    return ask_again(held, p, {from, p.ticket}, out);
  if (!takes(held.slice, p, held.state.read)) {
    const bool by_rows = p.write == 0 || writes_rows(write_kind(p.write));
    const std::string outside = by_rows ? rows_outside(held.slice, p) : "";
    if (!outside.empty()) return no(PushRefusal::type, Errc::invalid_argument, outside);
    return no(PushRefusal::type, Errc::invalid_argument,
              detail::concat(p.write == 0 ? "the gradient of " : "what is written to ",
                             describe(held.slice), " by replica ", p.replica, " is ",
                             p.gradient.dtype(), " of ", p.gradient.size(), " elements; wants ",
                             held.slice.dtype, " of ", held.slice.size, ", or rows of it"));
  }
  if (state != State::serving)
    return no(
        PushRefusal::not_serving, Errc::stale,
        detail::concat("the shard is ", to_string(state), "; do the step again when it serves"));
  Sequence& sequence = held.sequence(p.replica);
  if (p.incarnation < sequence.incarnation)
    return no(PushRefusal::incarnation, Errc::stale,
              detail::concat("incarnation ", p.incarnation, " of replica ", p.replica,
                             " was replaced by ", sequence.incarnation));
  if (p.incarnation > sequence.incarnation) renew(held, p.replica, p.incarnation, out);
  if (p.step < 0 || p.sequence < 0)
    return no(PushRefusal::step, Errc::invalid_argument,
              detail::concat("replica ", p.replica, " pushed step ", p.step, ", sequence ",
                             p.sequence, "; both count from 0"));

  if (p.sequence > sequence.next + kStepsInFlightMax)
    return no(PushRefusal::gap, Errc::stale,
              detail::concat("sequence ", p.sequence, " of replica ", p.replica, " for ",
                             describe(held.slice), " came before ", sequence.next, "; at most ",
                             kStepsInFlightMax, " may be under way"));
  if (p.sequence > sequence.next) {
    const int64_t number = p.sequence;
    const Ticket ticket{from, p.ticket};
    auto [parked, fresh] = sequence.parked.try_emplace(number);
    if (fresh)
      parked->second.push = std::move(p);
    else
      ++counters.duplicate;
    add_ticket(parked->second.tickets, ticket);
    return;
  }
  const bool next = p.sequence == sequence.next;
  const Ticket ticket{from, p.ticket};
  accept(held, std::move(p), {ticket}, out);
  if (!next) return;
  ++sequence.next;
  for (auto first = sequence.parked.begin();
       first != sequence.parked.end() && first->first == sequence.next;
       first = sequence.parked.begin()) {
    Parked parked = std::move(first->second);
    sequence.parked.erase(first);
    accept(held, std::move(parked.push), std::move(parked.tickets), out);
    ++sequence.next;
  }
}

bool Shard::Body::known(Held& held, const Push& p, const std::vector<Ticket>& tickets,
                        ShardActions& out) {
  const AggregationRule::PushVerdict verdict = held.rule->look(p.replica, p.step);
  switch (verdict.kind) {
    case AggregationRule::PushVerdict::refused:
      refuse(p, tickets, PushRefusal::step, Errc::stale, verdict.text, out);
      return true;
    case AggregationRule::PushVerdict::applied:
      ++counters.duplicate;
      for (const Ticket& t : tickets)
        out.push_back({t.to, Acknowledged{t.ticket, p.slice, Errc::ok, {}, held.state.version}});
      return true;
    case AggregationRule::PushVerdict::waiting:
      ++counters.duplicate;
      for (const Ticket& t : tickets) add_ticket(held.unacknowledged[{p.replica, p.step}], t);
      return true;
    case AggregationRule::PushVerdict::kept:
      break;
  }
  return false;
}

void Shard::Body::ask_again(Held& held, const Push& p, const Ticket& ticket, ShardActions& out) {
  Sequence& sequence = held.sequence(p.replica);
  if (state == State::serving && p.incarnation == sequence.incarnation) {
    if (const auto parked = sequence.parked.find(p.sequence); parked != sequence.parked.end()) {
      ++counters.duplicate;
      return add_ticket(parked->second.tickets, ticket);
    }
    if (p.sequence < sequence.next && known(held, p, {ticket}, out)) return;
  }
  refuse(p, {ticket}, PushRefusal::gap, Errc::stale,
         detail::concat("the gradient of ", describe(held.slice), " by replica ", p.replica,
                        " in step ", p.step,
                        " was given to the shard once and has not counted; do the step again"),
         out);
}

void Shard::Body::accept(Held& held, RowPush&& p, std::vector<Ticket> tickets, ShardActions& out) {
  if (p.write != 0) return write(held, p, tickets, out);
  go_on(held, p.replica, p.first, out);
  if (known(held, p, tickets, out)) return;
  if (auto found = find_not_finite(p.gradient, held.slice.dtype, lanes, p.rows))
    return refuse(p, tickets, PushRefusal::not_finite, Errc::bad_data,
                  detail::concat("the gradient of ", held.slice.parameter, " by replica ",
                                 p.replica, " in step ", p.step, " is not finite: ", *found, " of ",
                                 describe(held.slice),
                                 "; look at the data of that step, lower the learning rate, or add "
                                 "check_finite() to find the op"),
                  out);
  held.unacknowledged[{p.replica, p.step}] = std::move(tickets);
  held.rule->push({p.replica, p.step, p.incarnation, std::move(p.gradient), std::move(p.rows)});
  settle(held, out);
}

// The replica will push nothing for steps before `first`: answers requests that wait for such a
// push.
void Shard::Body::go_on(Held& held, int32_t replica, int64_t first, ShardActions& out) {
  if (!held.rule || first <= 0) return;
  held.rule->go_on(replica, first);
  Sequence& sequence = held.sequence(replica);
  sequence.first = std::max(sequence.first, first);
  if (skip(held, out)) settle(held, out);
  let_previous_go(held);
}

// Frees the values before the newest update once no replica can read them: their block is then free
// for the next gradient. Memory that is not the pool's stays, as the next update writes there.
void Shard::Body::let_previous_go(Held& held) {
  SliceValues& s = held.state;
  if (kind != Aggregation::sync || !fills_block_of(pool, s.previous)) return;
  const int64_t next = held.rule->next_step();
  for (const int32_t replica : replica_numbers)
    if (held.sequence(replica).first < next) return;
  s.previous.reset();
  s.previous_version = -1;
}

bool Shard::Body::skip(Held& held, ShardActions& out) {
  std::vector<Contribution> lost;
  const std::optional<int32_t> left = held.rule->skip(lost);
  if (!left) return false;
  for (const Contribution& c : lost) {
    ++counters.refused[static_cast<size_t>(PushRefusal::step)];
    const auto tickets = held.unacknowledged.extract({c.replica, c.step});
    if (tickets.empty()) continue;
    const std::string text = detail::concat(
        "the gradient of ", describe(held.slice), " of replica ", c.replica, " for step ", c.step,
        " waited for that of replica ", *left,
        ", which has gone on without one: its run failed, or pushes other parameters; run the step "
        "again in all replicas, and push the same parameters in each");
    for (const Ticket& t : tickets.mapped())
      out.push_back(
          {t.to, Acknowledged{t.ticket, held.slice.id, Errc::stale, text, held.state.version}});
  }
  answer_waiting(held, out);
  capture(held);
  return true;
}

void Shard::Body::settle(Held& held, ShardActions& out) {
  std::vector<Contribution> gradients;
  do {
    while (held.rule->take(gradients)) {
      update(held, gradients, out);
      gradients.clear();  // frees their memory before the answers go out
      let_previous_go(held);
      answer_waiting(held, out);
      capture(held);
    }
  } while (skip(held, out));
  finish_snapshots(out);
}

void Shard::Body::update(Held& held, std::vector<Contribution>& gradients, ShardActions& out) {
  const bool in_place =
      apply_mean(*held.slice.optimizer, gradients, kind == Aggregation::sync, held.state,
                 {lanes, room_of(gradients[0].gradient, held.slice.dtype, pool)});
  if (!in_place) ++counters.copies;
  ++counters.updates;
  (gradients.size() == 1 ? counters.applied : counters.merged) +=
      static_cast<int64_t>(gradients.size());
  Applied applied{
      .epoch = epoch, .slice = held.slice.id, .version = held.state.version, .from = {}};
  for (const Contribution& c : gradients) {
    if (applied_log) applied.from.push_back({c.replica, c.step, c.incarnation});
    if (const int64_t pulled = held.sequence(c.replica).pulled_version; pulled >= 0) {
      const int64_t staleness = held.state.version - 1 - pulled;
      counters.staleness_sum += staleness;
      counters.staleness_max = std::max(counters.staleness_max, staleness);
    }
  }
  if (applied_log) applied_log(applied);
  for (const Contribution& c : gradients) {
    auto node = held.unacknowledged.extract({c.replica, c.step});
    if (node.empty()) continue;
    for (const Ticket& t : node.mapped())
      out.push_back(
          {t.to, Acknowledged{t.ticket, held.slice.id, Errc::ok, {}, held.state.version}});
  }
}

void Shard::Body::pull(const Pull& p, uint64_t from, ShardActions& out) {
  ++counters.pulls;
  if (p.epoch != epoch)
    return refuse(p, from, Errc::stale,
                  detail::concat("a pull of epoch ", p.epoch, " came to a shard in epoch ", epoch,
                                 "; take the new routes and do the step again"),
                  out);
  auto it = slices.find(p.slice);
  if (it == slices.end())
    return refuse(p, from, Errc::invalid_argument,
                  detail::concat("this shard has no slice ", p.slice), out);
  if (p.step >= 0 && !replica_numbers.count(p.replica))
    return refuse(p, from, Errc::invalid_argument,
                  detail::concat("this shard knows no replica ", p.replica), out);
  Held& held = it->second;
  if (p.rows.defined() && !may_name_rows(held.slice, p))
    return refuse(p, from, Errc::invalid_argument, no_rows(held.slice, p), out);
  if (p.step >= 0) go_on(held, p.replica, p.first, out);
  if (answer(held, p, from, out)) return;
  if (p.rows.defined() && !has_rows(held.slice, p))
    return refuse(p, from, Errc::invalid_argument, no_rows(held.slice, p), out);
  for (WaitingPull& w : held.pulls)
    if (w.to == from && w.pull.ticket == p.ticket) {  // sent again; one answer is enough
      ++counters.pulls_refused;
      return;
    }
  if (waiting_pulls >= kWaitingPullsMax)
    return refuse(p, from, Errc::out_of_memory,
                  detail::concat(kWaitingPullsMax, " pulls wait already; ask again later"), out);
  held.pulls.push_back({p, from});
  ++waiting_pulls;
}

AggregationRule::PullVerdict Shard::Body::verdict(const Held& held, const Pull& p) const {
  return held.rule ? held.rule->pull(p.replica, p.step) : pull_written(held, p.replica, p.step);
}

bool Shard::Body::puts_together(const Pull& p) const {
  const auto it = slices.find(p.slice);
  if (p.epoch != epoch || state != State::serving || it == slices.end() || p.step < 0 ||
      !replica_numbers.count(p.replica))
    return false;  // refused, or answered later
  const Held& held = it->second;
  if (held.rule ? !held.state.previous_rows.defined() : held.written.before.defined()) return false;
  return verdict(held, p).kind == AggregationRule::PullVerdict::previous;
}

bool Shard::Body::answer(Held& held, const Pull& p, uint64_t from, ShardActions& out) {
  if (state != State::serving) return false;
  using Verdict = AggregationRule::PullVerdict;
  Verdict verdict = this->verdict(held, p);
  if (verdict.kind == Verdict::previous && held.rule &&
      held.state.previous_version != held.state.version - 1)
    verdict = {Verdict::gone,
               detail::concat("the values of step ", p.step, " of ", describe(held.slice),
                              " are older than what the shard was restored from, or were let go "
                              "as every replica has said that it is over")};
  if (verdict.kind == Verdict::wait) return false;
  if (verdict.kind == Verdict::gone) {
    refuse(p, from, Errc::stale, verdict.text, out);
    return true;
  }
  const bool previous = verdict.kind == Verdict::previous;
  Pulled answer{p.ticket, p.slice, Errc::ok, {}, held.state.version - (previous ? 1 : 0), {}};
  if (previous && !held.rule) answer.version = held.written.before_version;
  if (answer.version == p.have_version && !p.rows.defined()) {
    ++counters.pulls_unchanged;
  } else {
    answer.values = !previous   ? held.state.values
                    : held.rule ? previous_values(held.state)
                                : before_writes(held);
    if (p.rows.defined()) answer.values = take_rows(answer.values, p.rows, p.row_size);
    if (p.rows.defined() && !answer.values.defined()) {
      refuse(p, from, Errc::invalid_argument, no_rows(held.slice, p), out);
      return true;
    }
    note_read(held, p, answer);
  }
  if (p.step >= 0) held.sequence(p.replica).pulled_version = answer.version;
  ++counters.pulls_answered;
  out.push_back({from, std::move(answer)});
  return true;
}

// Notes the rows of a pull for the push that is likely to follow. A local reader still holds the
// index tensor; a remote request's tensor has no other owner. Keeps the values only if the next
// update must preserve them.
void Shard::Body::note_read(Held& held, const Pull& p, const Pulled& answer) const {
  if (!held.rule || !p.rows.defined() || p.rows.unique()) return;
  const bool kept = kind == Aggregation::sync && replica_numbers.size() == 1 &&
                    answer.version == held.state.version;
  held.state.read = {p.replica,     p.step, p.rows, p.row_size, kept ? answer.values : Tensor{},
                     answer.version};
}

void Shard::Body::answer_waiting(Held& held, ShardActions& out) {
  std::vector<WaitingPull> again;
  for (WaitingPull& w : std::exchange(held.pulls, {}))
    if (!answer(held, w.pull, w.to, out))
      again.push_back(std::move(w));
    else
      --waiting_pulls;
  held.pulls = std::move(again);
}

}  // namespace troupe
