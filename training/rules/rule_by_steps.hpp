// RuleBySteps: the rules under which a step is one update for all replicas. It holds the gradients
// of the open step and of those ahead, in rounds; a kind says when a round is whole, and what
// becomes of gradients that come after it. Kinds: rule_sync.cpp, rule_backup.cpp, rule_local.cpp.
// Owner: as AggregationRule. Thread: as AggregationRule.
#pragma once

#include <map>
#include <vector>

#include "training/rules/rule.hpp"

namespace troupe {

class RuleBySteps : public AggregationRule {
 public:
  void push(Contribution c) override;
  int compare_step(int64_t step) const override {
    return step == step_ ? 0 : step > step_ ? 1 : -1;
  }
  int64_t next_step() const override { return step_; }
  int64_t open_to() const override { return step_; }
  int64_t looks() const override { return looks_; }
  std::vector<ReplicaProgress> progress() const override;
  int64_t held() const override;
  std::vector<int32_t> missing() const override;

 protected:
  using Round = std::map<int32_t, Contribution>;  // by replica: the order of the sum

  // `progress`: all at one step.
  explicit RuleBySteps(const std::vector<ReplicaProgress>& progress);

  // Null: nobody has pushed for the open step.
  Round* open() { return find(step_); }
  const Round* open() const { return find(step_); }
  // Moves the gradients of the open step into `out`, in the order of replicas, and begins the next
  // step. Requires: open().
  void end_step(std::vector<Contribution>& out);
  // The verdict on a gradient of the open step or of a later one.
  PushVerdict look_ahead(int32_t replica, int64_t step) const;
  // The verdict on a pull where a step may end without a replica, or without an update: `ended`
  // says why a step before the last one is gone.
  PullVerdict pull_of(int32_t replica, int64_t step, const char* ended) const;
  // The verdict on a pull of a step that is not open yet.
  PullVerdict pull_ahead(int64_t step) const;
  // No gradient of the replica comes any more for steps before `first`; false: it is known.
  bool leave(int32_t replica, int64_t first);
  // False: all replicas are in the open step, and none of them needs a look.
  bool some_have_left() const { return farthest_ > step_; }

  std::map<int32_t, int64_t> first_;  // by replica: no gradient of an earlier step comes any more
  int64_t step_ = 0;                  // the open one
  int64_t empty_ = -1;                // the step before it, if that made no update
  std::map<int64_t, Round> rounds_;   // by step: the open one and those ahead of it
  mutable int64_t looks_ = 0;

 private:
  const Round* find(int64_t step) const;
  Round* find(int64_t step);

  int64_t farthest_ = 0;  // the largest step in first_
};

}  // namespace troupe
