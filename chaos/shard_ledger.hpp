// ShardLedger: the fate of every gradient of a training, kept apart from the shards that it checks.
// It is told of each update (Shard::set_applied_log) and of each answer that a client takes, and
// inspects all shards after every event of a simulation. It counts the acknowledged gradients that
// a restore gave up. It checks these invariants:
//   I1   each (replica, step, slice) is applied 0 or 1 times in the present line of epochs,
//        and 1 time if it was acknowledged or lies before a restored checkpoint
//   I3   versions go up by one per update, and back only under a new epoch
//   I4   within an epoch a replica's next step reads no older version
//   I5   synchronous rule: the values of every version have the bits of a run without faults;
//        every rule: a restore gives a version the bits that it had, with the optimizer's
//        accumulators, and a client gets the bits of the version that it is told
//   I6   synchronous rule: an update has one gradient per replica, in replica order,
//        all of the same step, which follows the step of the update before; a step reads the
//        version that the updates of all steps before it have made. With local steps, an update
//        has one change per replica of the same round, and stands for all of its steps. With backup
//        replicas: an update has at least the gradients that end a step, in replica order, all of
//        one step, which is newer than that of the update before; an acknowledged gradient that it
//        lacks came after it. Bounded staleness: a step reads a version with the updates of all
//        steps that its bound wants. Where rules follow each other: an update is made by the rule
//        of the step of its gradients
//   I8   at the end a slice has the bits that its updates give on one node (shard_replay.hpp)
//   I10  the incarnations of a replica's gradients in an update never go back
//   I14  a checkpoint is one step of all slices: each has the bits and the progress of its version
//   I24  an update leaves out the gradients that are not finite, and no others
//   I21  every push and pull is accounted for, pushes by slice and replica; at the end none waits
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "chaos/history.hpp"
#include "chaos/shard_replay.hpp"
#include "chaos/table_hash.hpp"
#include "training/parameters/parameter_client.hpp"
#include "training/shards/shard.hpp"

namespace troupe::sim {

// Hash of each slice's values at each version.
using HashChain = std::map<std::pair<uint32_t, int64_t>, uint64_t>;

class ShardLedger {
 public:
  // `golden`: the chain of a run without faults, which this run must equal; may be null.
  // `switches`: the rules that follow, by their first step.
  ShardLedger(Aggregation rule, int32_t replicas, int64_t steps, const HashChain* golden,
              std::map<int64_t, Aggregation> switches = {})
      : rules_{rule, std::move(switches)}, replicas_(replicas), steps_(steps), golden_(golden) {}

  struct Expected {
    // The gradients that are not finite, of all slices.
    std::function<bool(int32_t replica, int64_t step)> is_bad = {};
    Codec::Kind values = Codec::none;  // of those that clients get in a training step
    bool late_early = false;  // a replay knows that a gradient is late before its update is made
  };
  void expect(Expected expected) { expected_ = std::move(expected); }
  // Does not throw, since a shard calls it; look() throws the violation later.
  void applied(const Shard::Applied& a) {
    if (closed_) return;
    try {
      count(a);
      replay_.applied(a);
    } catch (const Violation& v) {
      report(v);
    }
  }
  // The training is over; processes stop, and do the rest of their work meanwhile.
  void close() { closed_ = true; }
  // The next look() throws the first of these. Does not throw.
  void report(const Violation& v) {
    if (found_.invariant.empty()) found_ = v;
  }
  void acknowledged(uint32_t slice, int32_t replica, int64_t step) {
    const size_t i = cell(replica, step);
    book_of(slice).acknowledged[i] = 1;
    just_acknowledged_.emplace_back(slice, i);
    ++acknowledgements_;
  }
  // A client has this answer. Does not throw.
  void taken(const TakenAnswer& answer) {
    if (!closed_) try {
        take(answer);
      } catch (const Violation& v) {
        report(v);
      }
  }
  // Another update has been made, and not yet been answered.
  void remember(uint32_t slice, const Shard& shard) {
    if (closed_) return;
    const SliceValues& now = shard.find(slice)->values();
    states_[{slice, now.version}] = state_of(now);
  }
  // The step has ended well, so all its gradients were acknowledged.
  void step_done(int32_t replica, int64_t step) const {
    const Aggregation& rule = rule_at(step);
    if (rule.local() && (step + 1) % rule.bound != 0) return;  // a step within a round
    for (const auto& [slice, book] : books_)
      if (!book.ever.count(cell(replica, step)))
        throw Violation{"I1", detail::concat("step ", step, " of replica ", replica,
                                             " has ended, and its gradient of slice ", slice,
                                             " was not acknowledged")};
  }
  // The program has died. Its successor has other shards, and begins with a checkpoint or anew.
  void program_died() {
    for (auto& [slice, book] : books_) {
      keep(book.applied, book.before_applied);
      keep(book.acknowledged, book.before_acknowledged);
      book.epoch = 0;
      book.version = -1;
      book.reads.clear();
    }
  }
  int64_t acknowledgements() const { return acknowledgements_; }
  int64_t lost() const { return lost_; }  // acknowledged gradients that a restore gave up

  // Call after every event, for each existing shard.
  void look(const Shard& shard) {
    if (!found_.invariant.empty()) throw found_;
    const ShardCounters c = shard.counters();
    check_pushes(shard, c);
    if (c.pulls != c.pulls_answered + c.pulls_refused + c.pulls_waiting)
      throw Violation{"I21", detail::concat("a shard cannot account for its ", c.pulls, " pulls")};
    if (shard.state() != Shard::State::serving) return;
    for (const Slice& slice : shard.slices()) {
      seen_.try_emplace(slice.id, slice);
      if (slice.optimizer) look(slice, shard);
    }
  }
  // All that it has seen, also those that programs write.
  const std::map<uint32_t, Slice>& seen() const { return seen_; }
  // A program is told of a checkpoint of this step; `states`: of the slices seen() in its files.
  void check_checkpoint(int64_t step, const std::vector<SliceState>& states) const {
    for (const SliceState& s : states) {
      const auto broken = [&s](const auto&... how) {
        return Violation{"I14", detail::concat("slice ", s.slice.id, " of a checkpoint ", how...)};
      };
      if (!s.slice.optimizer) continue;
      const Aggregation first = rule_of(s.slice.id, 0);
      if ((first.by_steps() || switching()) && s.next_step != step)
        throw broken("of step ", step, " goes on at step ", s.next_step);
      if (exact(s.slice.id) && s.version != step)
        throw broken("of step ", step, " has version ", s.version);
      int64_t counted = 0;
      for (const ReplicaProgress& p : s.progress)
        for (int64_t i = 0; i < steps_; ++i) counted += p.has(i);
      if (!switching() && first.kind != Aggregation::Kind::sync_backup &&
          counted != s.version * (first.by_steps() ? replicas_ : 1))
        throw broken("counts ", counted, " gradients in version ", s.version);
      const auto known = states_.find({s.slice.id, s.version});
      if (known == states_.end() || !state_of(s).follows(known->second))
        throw broken("has other bits than version ", s.version, " has");
    }
  }
  // Call once after look() of all shards.
  void check() {
    for (auto& [slice, book] : books_) book.applied_now = 0;
    for (const auto& [slice, i] : just_acknowledged_) {
      const Book& book = books_.at(slice);
      if (book.acknowledged[i] > book.applied[i] && !is_late(slice, book, i))
        throw Violation{"I1", describe(slice, i)};
    }
    just_acknowledged_.clear();
  }
  // Call when the training has ended and no message is under way.
  void check_end(const Shard& shard) const {
    const ShardCounters c = shard.counters();
    if (c.held != 0 || c.pulls_waiting != 0 || !shard.waiting_for().empty())
      throw Violation{"I21", detail::concat(c.held, " gradients are held and ", c.pulls_waiting,
                                            " pulls wait; ", shard.waiting_for())};
    for (const Slice& slice : shard.slices()) {
      if (!slice.optimizer) continue;
      const int64_t want = rule_of(slice.id, 0).by_steps() ? steps_ : steps_ * replicas_;
      if (!switching() && shard.version(slice.id) != want)
        throw Violation{"I1", detail::concat("slice ", slice.id, " ends at version ",
                                             shard.version(slice.id), ", not ", want)};
      const Book& book = books_.at(slice.id);
      for (size_t i = 0; i < book.applied.size(); ++i)
        if (book.applied[i] != 1 && !is_late(slice.id, book, i))
          throw Violation{"I1", describe(slice.id, i)};
      replay_.check(slice.id, shard.find(slice.id)->values());
    }
  }
  void check_end() const {
    if (golden_ && *golden_ != chain_)
      throw Violation{"I5", "the chain of values is not that of a run without faults"};
  }
  const HashChain& chain() const { return chain_; }

 private:
  struct Book {                                            // the record of one slice
    std::vector<int> applied, acknowledged;                // by step and replica
    std::vector<int> before_applied, before_acknowledged;  // when the program died
    std::set<size_t> ever;    // the cells that were acknowledged in any epoch
    int64_t applied_now = 0;  // the steps of the updates during this event
    uint64_t epoch = 0;       // as last seen while the shard was serving
    int64_t version = -1;
    std::map<int32_t, uint64_t> incarnations;  // by replica: of the newest update
    int64_t open = 0;  // with backup replicas: the step after that of the newest update
    struct Read {
      uint64_t epoch = 0;
      int64_t step = -1, version = -1;
    };
    std::map<int64_t, Read> reads;  // by replica: the newest
  };

  struct State {
    uint64_t values = 0, all = 0;  // hashes; all: with accumulators
    uint64_t travelling = 0;       // of the values as clients get them in a training step
    bool anew = false;             // a change of the rule has made them anew, or nothing has yet
    bool follows(const State& before) const {  // of the same version
      return values == before.values && (all == before.all || anew);
    }
  };
  static uint64_t hash_of(const Tensor& values, uint64_t hash = kFnvStart) {
    return fnv(hash, values.raw(), static_cast<size_t>(values.byte_size()));
  }
  template <class Values>  // SliceValues, SliceState
  State state_of(const Values& now) const {
    State out{.values = add_rows(hash_of(now.values), rows_in(now)),
              .anew = now.accumulators_since == now.version};
    out.all = out.travelling = out.values;
    if (expected_.values != Codec::none && now.values.defined()) {
      Tensor coded = encode_values(expected_.values, now.values,
                                   [](DType d, const Shape& s) { return Tensor::empty(d, s); });
      Tensor seen = Tensor::empty(now.values.dtype(), now.values.shape());
      decode(expected_.values, coded, 0, seen.size(), seen);
      out.travelling = hash_of(seen);
    }
    for (const auto& [name, values] : now.optimizer_accumulators)
      out.all = hash_of(values, out.all);
    return out;
  }

  // Each push of each replica to each slice has ended, or is held, and is in one row.
  static void check_pushes(const Shard& shard, const ShardCounters& all) {
    if (all.received != all.ended() + all.held)
      throw Violation{"I21",
                      detail::concat("a shard cannot account for its ", all.received, " pushes")};
    int64_t held = 0;
    for (const PushRow& row : shard.pushes()) {
      held += row.held;
      if (row.counts.received != row.counts.ended() + row.held)
        throw Violation{
            "I21", detail::concat("of ", row.counts.received, " pushes of replica ", row.replica,
                                  " to slice ", row.slice, " ", row.counts.ended(),
                                  " have ended, and ", row.held, " are held")};
    }
    if (held != all.held)
      throw Violation{"I21",
                      detail::concat("a shard holds ", all.held, " pushes, and rows ", held)};
  }

  void take(const TakenAnswer& a) {
    if (const auto at = seen_.find(a.slice); at != seen_.end() && !at->second.optimizer) return;
    Book& book = book_of(a.slice);
    if (a.version >= 0) {
      if (a.epoch != book.epoch) return;
      const auto known = states_.find({a.slice, a.version});
      const bool coded = a.codec != Codec::none;
      if (known == states_.end() || (coded && a.codec != expected_.values) ||
          (coded ? known->second.travelling : known->second.values) != hash_of(a.values))
        throw Violation{"I5", detail::concat("a client has other values of slice ", a.slice,
                                             " than version ", a.version, " has")};
      if (a.at.step >= 0) read(book, a);
      return;
    }
    for (int64_t step = a.at.step - a.steps + 1; step <= a.at.step; ++step) {
      const size_t i = cell(static_cast<int32_t>(a.at.replica), step);
      ++acknowledgements_;
      book.ever.insert(i);
      if (a.epoch >= book.epoch) {
        book.acknowledged[i] = 1;
        just_acknowledged_.emplace_back(a.slice, i);
      } else if (book.applied[i] == 0) {
        ++lost_;  // it was given up while the answer was under way
      }
    }
  }

  void read(Book& book, const TakenAnswer& a) const {
    if (exact(a.slice) && a.version != a.at.step)
      throw Violation{"I6", detail::concat("step ", a.at.step, " of replica ", a.at.replica,
                                           " has read version ", a.version, " of slice ", a.slice)};
    const int64_t least =
        a.at.step + (replicas_ - 1) * std::max<int64_t>(0, a.at.step - rule_of(a.slice, 0).bound);
    const bool ssp = !switching() && rule_of(a.slice, 0).kind == Aggregation::Kind::ssp;
    if (ssp && a.version < least)
      throw Violation{"I6", detail::concat("step ", a.at.step, " of replica ", a.at.replica,
                                           " has read version ", a.version, " of slice ", a.slice,
                                           ", and its bound wants at least ", least)};
    Book::Read& newest = book.reads[a.at.replica];
    // An answer to an attempt that was given up may come when a later one has read already.
    if (a.epoch == newest.epoch && a.at.step == newest.step)
      newest.version = std::max(newest.version, a.version);
    if (a.epoch == newest.epoch && a.at.step <= newest.step) return;
    if (a.epoch == newest.epoch && a.version < newest.version)
      throw Violation{"I4",
                      detail::concat("replica ", a.at.replica, " has read version ", a.version,
                                     " of slice ", a.slice, " after version ", newest.version)};
    newest = {a.epoch, a.at.step, a.version};
  }

  void count(const Shard::Applied& a) {
    Book& book = book_of(a.slice);
    book.applied_now += a.steps;
    const std::vector<From> all = check_finite(a);
    for (const auto& from : all)
      if (a.rule != rule_of(a.slice, from.step))
        throw Violation{"I6", detail::concat("step ", from.step, " of replica ", from.replica,
                                             " has made version ", a.version, " of slice ", a.slice,
                                             " by the rule ", to_string(a.rule), ", not ",
                                             to_string(rule_of(a.slice, from.step)))};
    const Aggregation rule = rule_of(a.slice, all.at(0).step);
    if (rule.repeats()) {
      const int64_t step = switching() ? all[0].step : a.version - 1;
      if (all.size() != static_cast<size_t>(replicas_))
        throw Violation{"I6", detail::concat("version ", a.version, " of slice ", a.slice,
                                             " is made of ", all.size(), " gradients")};
      for (size_t i = 0; i < all.size(); ++i)
        if (all[i].replica != static_cast<int32_t>(i) || all[i].step != step)
          throw Violation{"I6", detail::concat("version ", a.version, " of slice ", a.slice,
                                               " has step ", all[i].step, " of replica ",
                                               all[i].replica, " as gradient ", i)};
    }
    if (rule.kind == Aggregation::Kind::sync_backup)
      count_step(book, a.slice, a.version, all, rule.bound);
    for (const auto& from : all) {
      const size_t i = cell(from.replica, from.step);
      if (uint64_t& newest = book.incarnations[from.replica]; from.incarnation < newest)
        throw Violation{"I10", detail::concat("step ", from.step, " of replica ", from.replica,
                                              " in slice ", a.slice, " is of incarnation ",
                                              from.incarnation, ", and ", newest, " came before")};
      else
        newest = from.incarnation;
      if (++book.applied[i] > 1) throw Violation{"I1", describe(a.slice, i)};
      for (int64_t step = from.step - a.steps + 1; step < from.step; ++step)
        if (const size_t of = cell(from.replica, step); ++book.applied[of] > 1)
          throw Violation{"I1", describe(a.slice, of)};
    }
  }
  using From = Shard::Applied::From;
  // The gradients of the update, and those that it has skipped, in the order of the sum.
  std::vector<From> check_finite(const Shard::Applied& a) const {
    std::vector<From> all;
    for (const auto& [part, bad] : {std::pair(&a.from, false), std::pair(&a.skipped, true)})
      for (const From& from : *part) {
        if ((expected_.is_bad && expected_.is_bad(from.replica, from.step)) != bad)
          throw Violation{"I24", detail::concat("version ", a.version, " of slice ", a.slice,
                                                " has ", bad ? "skipped" : "taken", " step ",
                                                from.step, " of replica ", from.replica)};
        all.push_back(from);
      }
    if (!a.skipped.empty())
      std::stable_sort(all.begin(), all.end(),
                       [](const From& x, const From& y) { return x.replica < y.replica; });
    return all;
  }
  bool switching() const { return !rules_.later.empty(); }
  // Every version has the bits of a run without faults, and is the number of its steps. Sums of
  // steps that read values of other rules as well have none to repeat.
  bool exact(uint32_t slice) const { return !switching() && rule_of(slice, 0).repeats(); }
  const Aggregation& rule_at(int64_t step) const {
    const auto later = rules_.later.upper_bound(step);
    return later == rules_.later.begin() ? rules_.first : std::prev(later)->second;
  }
  Aggregation rule_of(uint32_t slice, int64_t step) const {
    const auto seen = seen_.find(slice);
    return rule_at(step).of(seen == seen_.end() ? "" : seen->second.parameter);
  }
  // True if this gradient may be missing in its update.
  bool is_late(uint32_t slice, const Book& book, size_t i) const {
    const int64_t step = static_cast<int64_t>(i) / replicas_;
    return rule_of(slice, step).kind == Aggregation::Kind::sync_backup &&
           (step < book.open || expected_.late_early) && book.applied[i] == 0;
  }
  void count_step(Book& book, uint32_t slice, int64_t version, const std::vector<From>& all,
                  int64_t backups) const {
    const auto broken = [=](const auto&... how) {
      return Violation{"I6", detail::concat("version ", version, " of slice ", slice, " ", how...)};
    };
    if (std::ssize(all) < replicas_ - backups)
      throw broken("is made of ", all.size(), " gradients");
    for (size_t i = 0; i < all.size(); ++i) {
      if (all[i].step != all[0].step || all[i].step < book.open)
        throw broken("has a gradient of step ", all[i].step, " beside one of step ", all[0].step,
                     "; step ", book.open, " is next");
      if (i > 0 && all[i].replica <= all[i - 1].replica)
        throw broken("has replica ", all[i].replica, " as gradient ", i);
    }
    book.open = all[0].step + 1;
  }
  size_t cell(int32_t replica, int64_t step) const {
    if (step < 0 || step >= steps_ || replica < 0 || replica >= replicas_)
      throw Violation{"I1", detail::concat("step ", step, " of replica ", replica,
                                           " is no step of this training")};
    return static_cast<size_t>(step) * static_cast<size_t>(replicas_) +
           static_cast<size_t>(replica);
  }
  Book& book_of(uint32_t slice) {
    Book& book = books_[slice];
    book.applied.resize(static_cast<size_t>(steps_ * replicas_));
    book.acknowledged.resize(book.applied.size());
    return book;
  }
  std::string describe(uint32_t slice, size_t i) const {
    const auto replicas = static_cast<size_t>(replicas_);
    const Book& book = books_.at(slice);
    return detail::concat("step ", i / replicas, " of replica ", i % replicas, " of slice ", slice,
                          " was applied ", book.applied[i], " times",
                          book.acknowledged[i] ? " and acknowledged" : "");
  }

  void look(const Slice& slice, const Shard& shard) {
    Book& book = book_of(slice.id);
    const int64_t version = shard.version(slice.id);
    if (shard.epoch() < book.epoch)
      throw Violation{"I3", detail::concat("slice ", slice.id, " went from epoch ", book.epoch,
                                           " to ", shard.epoch())};
    if (shard.epoch() == book.epoch && version != book.version + book.applied_now)
      throw Violation{"I3", detail::concat("slice ", slice.id, " went from version ", book.version,
                                           " to ", version, " by ", book.applied_now, " updates")};
    if (shard.epoch() > book.epoch) {
      begin_epoch(slice.id, book, shard);
      check_restored(slice.id, shard);
      replay_.serves(slice.id, shard.find(slice.id)->values());
    }
    const bool changed = shard.epoch() != book.epoch || version != book.version;
    book.epoch = shard.epoch();
    book.version = version;
    if (!changed || !exact(slice.id)) return;
    const SliceValues& values = shard.find(slice.id)->values();
    const uint64_t hash = add_rows(hash_of(values.values), rows_in(values));
    chain_[{slice.id, version}] = hash;
    if (!golden_) return;
    const auto want = golden_->find({slice.id, version});
    if (want == golden_->end() || want->second != hash)
      throw Violation{"I5", detail::concat("slice ", slice.id, " at version ", version,
                                           " has other bits than without faults")};
  }

  // The replicas resume from the step that the slice states; later steps will be done again.
  void begin_epoch(uint32_t slice, Book& book, const Shard& shard) {
    book.open = shard.find(slice)->rule()->next_step();
    for (const ReplicaProgress& p : shard.find(slice)->rule()->progress())
      for (int64_t step = 0; step < steps_; ++step) {
        const size_t i = cell(p.replica, step);
        if (p.has(step)) {
          if (book.applied[i] == 0) take_over(book, i);
          if (book.applied[i] != 1 && !is_late(slice, book, i))
            throw Violation{"I1", describe(slice, i)};
        } else {
          lost_ += book.acknowledged[i];
          book.applied[i] = book.acknowledged[i] = 0;
        }
      }
  }
  // One program may die before it has restored all that its predecessor did.
  static void keep(const std::vector<int>& now, std::vector<int>& before) {
    before.resize(now.size());
    for (size_t i = 0; i < now.size(); ++i) before[i] = std::max(before[i], now[i]);
  }
  // A program that resumes has new shards, which are empty before they have its checkpoint.
  void take_over(Book& book, size_t i) {
    if (i >= book.before_applied.size()) return;
    book.applied[i] = book.before_applied[i];
    book.acknowledged[i] = book.before_acknowledged[i];
    lost_ -= book.acknowledged[i];
  }
  // Values that were there before have the same bits. Later versions will be made anew.
  void check_restored(uint32_t slice, const Shard& shard) {
    const SliceValues& now = shard.find(slice)->values();
    const State state = state_of(now);
    const auto known = states_.try_emplace({slice, now.version}, state).first;
    if (!state.follows(known->second))
      throw Violation{"I5", detail::concat("slice ", slice, " was restored at version ",
                                           now.version, " with other bits than it had")};
    known->second = state;
    states_.erase(std::next(known), states_.upper_bound({slice, INT64_MAX}));
  }

  const struct {
    Aggregation first;
    std::map<int64_t, Aggregation> later;  // by their first step
  } rules_;
  const int32_t replicas_;
  const int64_t steps_;
  const HashChain* const golden_;
  Expected expected_;
  std::map<uint32_t, Book> books_;  // by slice
  std::map<uint32_t, Slice> seen_;
  HashChain chain_;
  ShardReplay replay_;
  std::map<std::pair<uint32_t, int64_t>, State> states_;        // by slice and version
  std::vector<std::pair<uint32_t, size_t>> just_acknowledged_;  // in this event: slices, cells
  int64_t acknowledgements_ = 0, lost_ = 0;
  Violation found_;
  bool closed_ = false;
};

}  // namespace troupe::sim
