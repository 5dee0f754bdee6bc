// RuleSchedule: which aggregation rule holds from which step of a training on, and which of the
// changes the shards have. Steps that are done again after a loss have the rule that they had the
// first time, and later changes come again at their steps.
// Owner: TrainLoop. Thread: the owner's.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <utility>

#include "training/loop/checkpoint_schedule.hpp"
#include "troupe/training.hpp"

namespace troupe {

class RuleSchedule {
 public:
  RuleSchedule(const Aggregation& rule, int64_t step) : first_(rule), held_(rule), told_(step) {}

  // `rule` holds from `step` on, in place of the changes that were asked for from there on.
  void ask(const Aggregation& rule, int64_t step) {
    changes_.erase(changes_.lower_bound(step), changes_.end());
    if (step > told_ && !open() && at(step) == rule) return;  // it is no change
    changes_.emplace(step, rule);
    told_ = std::min(told_, step - 1);
    if (changes_.size() <= kChangesMax) return;
    first_ = changes_.begin()->second;
    changes_.erase(changes_.begin());
  }
  const Aggregation& at(int64_t step) const {
    const auto later = changes_.upper_bound(step);
    return later == changes_.begin() ? first_ : std::prev(later)->second;
  }
  const Aggregation& held() const { return held_; }  // by the shards
  // True if a step that one replica has done is over for all.
  bool late_jumps() const { return held_.kind == Aggregation::Kind::sync_backup; }
  // The step of the next change, if it is before `end`; else `end`.
  int64_t next(int64_t end) const {
    const auto it = changes_.upper_bound(told_);
    return it == changes_.end() ? end : std::min(end, it->first);
  }
  // The end of the round of local steps that `step` is in, or is the end of; else the step itself.
  int64_t round_up(int64_t step) const {
    if (step <= 0 || !at(step - 1).local()) return step;
    return CheckpointSchedule::multiple_after(step - 1, at(step - 1).bound);
  }
  // The first step of the round that `step` is in; else the step itself.
  int64_t round_begin(int64_t step) const {
    const Aggregation& rule = at(step);
    return rule.local() ? std::max(told_, step / rule.bound * rule.bound) : step;
  }
  bool due(int64_t step, int64_t end) const { return step < end && next(end) == step; }

  void begin(int64_t step) { telling_ = {step, at(step)}; }  // shards are told the rule of a step
  bool open() const { return telling_.has_value(); }
  // False if none were being told. Without `told` the change is due again.
  bool end(bool told) {
    const auto telling = std::exchange(telling_, std::nullopt);
    if (!telling) return false;
    if (!told) return true;
    held_ = telling->second;
    if (at(telling->first) == held_) told_ = telling->first;  // or another one was asked for
    return true;
  }
  // The shards were restored at this step, with its rule.
  void go_to(int64_t step) {
    told_ = step;
    held_ = at(step);
  }
  // True if the steps since `step` make the same updates when they are done again.
  bool repeats(int64_t step) const {
    return at(step).repeats() &&
           std::all_of(changes_.upper_bound(step), changes_.upper_bound(told_),
                       [](const auto& change) { return change.second.repeats(); });
  }

 private:
  static constexpr size_t kChangesMax = 1000;  // to go back to; more than between two checkpoints

  Aggregation first_;                       // before all changes
  std::map<int64_t, Aggregation> changes_;  // by step
  Aggregation held_;
  int64_t told_;  // the step up to which shards have the changes
  std::optional<std::pair<int64_t, Aggregation>> telling_;
};

}  // namespace troupe
