// Local steps: a replica does the steps of a round by itself, and pushes the change of its values.
// The mean of one change per replica, summed in replica order, is the update of a round (Stich
// 2019, McMahan et al. 2017; with an outer momentum Douillard et al. 2023). The shard's step is the
// first one of the open round; a push is of the last one.
#include "training/rules/rule_local.hpp"

#include "graph/base/mutant.hpp"
#include "training/rules/rule_by_steps.hpp"

namespace troupe {
namespace {

class LocalRule final : public RuleBySteps {
 public:
  LocalRule(const Aggregation& rule, const std::vector<ReplicaProgress>& progress)
      : RuleBySteps(progress), kind_(rule) {}

  Aggregation kind() const override { return kind_; }
  int64_t local_steps(int64_t step) const override { return end_of(step) - step; }

  PushVerdict look(int32_t replica, int64_t step) const override {
    if (step < step_) return {PushVerdict::applied};
    if (step != end_of(step_) - 1)
      return {PushVerdict::refused,
              detail::concat("the round of step ", step_, " takes its changes in step ",
                             end_of(step_) - 1, ", and this one is of step ", step)};
    return {open() && open()->count(replica) ? PushVerdict::waiting : PushVerdict::kept};
  }

  void push(Contribution c) override { rounds_[step_].emplace(c.replica, std::move(c)); }

  bool take(std::vector<Contribution>& out) override {
    const size_t wanted = first_.size() - (mutant(Mutant::round_of_all_but_one) ? 1 : 0);
    if (!open() || open()->size() < wanted) return false;
    before_ = step_;
    end_step(out);
    step_ = end_of(before_);
    return true;
  }

  PullVerdict pull(int32_t, int64_t step) const override {
    if (step < 0 || step == step_) return {};
    if (step == before_) return {PullVerdict::previous};
    const int64_t end = end_of(step_);
    if (step == end) return {PullVerdict::wait};
    return {PullVerdict::gone,
            detail::concat("step ", step, step > end ? " is past" : " is not the first step of",
                           " the round of steps ", step_, " to ", end - 1,
                           "; a process that is new in a round begins it again")};
  }

 private:
  int64_t end_of(int64_t step) const { return round_end(step, kind_.bound); }

  const Aggregation kind_;
  int64_t before_ = -1;  // the first step of the round before
};

}  // namespace

Optimizer outer_optimizer(const Aggregation& rule) {
  if (rule.outer_rate == 1 && rule.outer_momentum == 0) return sgd(1);
  return nesterov(rule.outer_rate, rule.outer_momentum);
}

std::unique_ptr<AggregationRule> make_local_rule(const Aggregation& rule,
                                                 const std::vector<ReplicaProgress>& progress) {
  return std::make_unique<LocalRule>(rule, progress);
}

}  // namespace troupe
