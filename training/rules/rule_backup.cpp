// The synchronous rule with b backup replicas: step t ends when all but b of the n replicas have
// pushed its gradient; one update with their mean, summed in replica order (Chen et al. 2016,
// "Revisiting distributed synchronous SGD"). A gradient that comes after that is late: it changes
// nothing, and its replica goes on at the newest step. A step ends with fewer gradients once no
// other replica can bring one, and without an update if none has.
#include "training/rules/rule_backup.hpp"

#include <algorithm>
#include <map>

#include "graph/base/mutant.hpp"
#include "training/rules/rule_by_steps.hpp"

namespace troupe {
namespace {

class BackupRule final : public RuleBySteps {
 public:
  BackupRule(const Aggregation& rule, const std::vector<ReplicaProgress>& progress)
      : RuleBySteps(progress), rule_(rule) {
    for (const ReplicaProgress& p : progress) counted_[p.replica] = p;
    wanted_ = first_.size() - static_cast<size_t>(rule.bound);
  }

  Aggregation kind() const override { return rule_; }

  PushVerdict look(int32_t replica, int64_t step) const override {
    if (step >= step_ || mutant(Mutant::backup_counts_late))
      return look_ahead(replica, std::max(step, step_));
    const ReplicaProgress& p = counted_.at(replica);
    const bool known = p.behind(step) < ReplicaProgress::kWindow && p.has(step);
    return {known ? PushVerdict::applied : PushVerdict::late};
  }

  void push(Contribution c) override {
    if (!mutant(Mutant::backup_counts_late)) return RuleBySteps::push(std::move(c));
    rounds_[std::max(c.step, step_)].emplace(c.replica, std::move(c));
  }

  bool take(std::vector<Contribution>& out) override {
    if (!open()) return false;
    const size_t wanted = mutant(Mutant::backup_of_one_less) ? wanted_ - 1 : wanted_;
    if (open()->size() < std::max<size_t>(wanted, 1) && may_come(*open())) return false;
    for (const auto& [replica, contribution] : *open()) counted_.at(replica).count(step_);
    end_step(out);
    empty_ = -1;
    return true;
  }

  bool go_on(int32_t replica, int64_t first) override {
    return leave(replica, first) && first > step_;
  }

  std::optional<int32_t> skip(std::vector<Contribution>&) override {
    if (open() || first_.empty() || may_come({})) return std::nullopt;
    int64_t next = first_.begin()->second;
    for (const auto& [replica, first] : first_) next = std::min(next, first);
    if (!rounds_.empty()) next = std::min(next, rounds_.begin()->first);
    step_ = next;
    empty_ = step_ - 1;
    return first_.begin()->first;
  }

  PullVerdict pull(int32_t replica, int64_t step) const override {
    return pull_of(replica, step, "which was late");
  }

 private:
  // True if a replica may still push for the open round, which has these gradients.
  bool may_come(const Round& round) const {
    if (!some_have_left()) return round.size() < first_.size();
    return std::any_of(first_.begin(), first_.end(), [&](const auto& replica) {
      ++looks_;
      return replica.second <= step_ && !round.count(replica.first);
    });
  }

  const Aggregation rule_;
  std::map<int32_t, ReplicaProgress> counted_;  // the gradients that made updates
  size_t wanted_ = 1;                           // gradients that end a round
};

}  // namespace

std::unique_ptr<AggregationRule> make_backup_rule(const Aggregation& rule,
                                                  const std::vector<ReplicaProgress>& progress) {
  return std::make_unique<BackupRule>(rule, progress);
}

}  // namespace troupe
