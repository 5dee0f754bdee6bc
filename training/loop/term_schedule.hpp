// TermSchedules: which aggregation rule and which rate scale hold from which step of a training on,
// and which of the changes the shards have. Steps that are done again after a loss have the terms
// that they had the first time, and later changes come again at their steps.
//
// Pauses set the rate scale, too, and set it again when they come again, so its schedule has the
// changes that other callers ask for, and no more.
// Owner: TrainLoop. Thread: the owner's.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <utility>

#include "training/control/training_requests.hpp"
#include "training/loop/checkpoint_schedule.hpp"
#include "troupe/training.hpp"

namespace troupe {

template <class Term>
class TermSchedule {
 public:
  TermSchedule(const Term& term, int64_t step) : first_(term), held_(term), told_(step) {}

  // `term` holds from `step` on, in place of the changes that were asked for from there on.
  void ask(const Term& term, int64_t step) {
    cut(step);
    changes_.emplace(step, term);
    told_ = std::min(told_, step - 1);
    if (changes_.size() <= kChangesMax) return;
    first_ = changes_.begin()->second;
    changes_.erase(changes_.begin());
  }
  // The term that was asked for; a pause may have set another rate scale since.
  const Term& at(int64_t step) const {
    const auto later = changes_.upper_bound(step);
    return later == changes_.begin() ? first_ : std::prev(later)->second;
  }
  // The change from this very step on; none: there is none.
  std::optional<Term> change_at(int64_t step) const {
    const auto it = changes_.find(step);
    return it == changes_.end() ? std::nullopt : std::optional(it->second);
  }
  const Term& held() const { return held_; }  // by the shards, but for pauses
  // The step of the next change, if it is before `end`; else `end`.
  int64_t next(int64_t end) const {
    const auto it = changes_.upper_bound(told_);
    return it == changes_.end() ? end : std::min(end, it->first);
  }
  bool due(int64_t step, int64_t end) const { return step < end && next(end) <= step; }
  // The changes that the shards do not have, by step.
  std::map<int64_t, Term> open_changes() const {
    return {changes_.upper_bound(told_), changes_.end()};
  }

  void begin(int64_t step) { telling_ = {step, at(step)}; }  // shards are told the term of a step
  bool open() const { return telling_.has_value(); }
  // The term that the shards are being told; none: none.
  std::optional<Term> telling() const {
    return telling_ ? std::optional(telling_->second) : std::nullopt;
  }
  // False if none was being told. Without `told` the change is due again.
  bool end(bool told) {
    const auto telling = std::exchange(telling_, std::nullopt);
    if (!telling) return false;
    if (!told) return true;
    held_ = telling->second;
    if (at(telling->first) == held_) told_ = telling->first;  // or another one was asked for
    return true;
  }
  // The shards were restored at this step, with its term.
  void go_to(int64_t step) {
    told_ = step;
    held_ = at(step);
  }

 protected:
  void cut(int64_t step) { changes_.erase(changes_.lower_bound(step), changes_.end()); }
  int64_t told() const { return told_; }
  const std::map<int64_t, Term>& changes() const { return changes_; }

 private:
  static constexpr size_t kChangesMax = 1000;  // to go back to; more than between two checkpoints

  Term first_;                       // before all changes
  std::map<int64_t, Term> changes_;  // by step
  Term held_;
  int64_t told_;  // the step up to which shards have the changes
  std::optional<std::pair<int64_t, Term>> telling_;
};

class RuleSchedule : public TermSchedule<Aggregation> {
 public:
  using TermSchedule::TermSchedule;

  // As TermSchedule::ask(); the rule that holds there anyhow is no change.
  void ask(const Aggregation& rule, int64_t step) {
    cut(step);
    if (step > told() && !open() && at(step) == rule) return;
    TermSchedule::ask(rule, step);
  }
  // True if a step that one replica has done is over for all.
  bool late_jumps() const { return held().kind == Aggregation::Kind::sync_backup; }
  // The end of the round of local steps that `step` is in, or is the end of; else the step itself.
  int64_t round_up(int64_t step) const {
    if (step <= 0 || !at(step - 1).local()) return step;
    return CheckpointSchedule::multiple_after(step - 1, at(step - 1).bound);
  }
  // The first step of the round that `step` is in; else the step itself.
  int64_t round_begin(int64_t step) const {
    const Aggregation& rule = at(step);
    return rule.local() ? std::max(told(), step / rule.bound * rule.bound) : step;
  }
  // True if the steps since `step` make the same updates when they are done again.
  bool repeats(int64_t step) const {
    return at(step).repeats() &&
           std::all_of(changes().upper_bound(step), changes().upper_bound(told()),
                       [](const auto& change) { return change.second.repeats(); });
  }
};

struct TermSchedules {
  explicit TermSchedules(const Aggregation& rule) : rules(rule, 0) {}

  RuleSchedule rules;
  TermSchedule<double> scales{1, 0};

  void ask(const TermChange& change) {
    if (change.rule)
      rules.ask(*change.rule, change.step);
    else
      scales.ask(change.rate_scale, change.step);
  }
  int64_t next(int64_t end) const { return scales.next(rules.next(end)); }
  bool due(int64_t step, int64_t end) const {
    return rules.due(step, end) || scales.due(step, end);
  }
  void begin(int64_t step, int64_t end) {
    if (rules.due(step, end)) rules.begin(step);
    if (scales.due(step, end)) scales.begin(step);
  }
  bool open() const { return rules.open() || scales.open(); }
  void go_to(int64_t step) {
    rules.go_to(step);
    scales.go_to(step);
  }
};

}  // namespace troupe
