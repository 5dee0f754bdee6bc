// The synchronous rule: step t ends when every replica has pushed its gradient of step t; one
// update with their mean, summed in replica order, makes the values that step t + 1 reads (Chen et
// al. 2016). The order of arrival never changes a bit. A step that a replica has passed without a
// gradient makes no update: the rule skips it and drops the gradients that others pushed for it.
#include "training/rules/rule_sync.hpp"

#include <algorithm>
#include <iterator>
#include <set>

#include "graph/base/mutant.hpp"
#include "training/rules/rule_by_steps.hpp"

namespace troupe {
namespace {

// The number of skipped steps that are remembered one by one.
constexpr int64_t kSkippedMax = 64;

class SyncRule final : public RuleBySteps {
 public:
  explicit SyncRule(const std::vector<ReplicaProgress>& progress) : RuleBySteps(progress) {}

  Aggregation kind() const override { return Aggregation::sync; }

  PushVerdict look(int32_t replica, int64_t step) const override {
    if (skipped_.count(step)) return {PushVerdict::refused, skipped(step)};
    if (step < step_ && !mutant(Mutant::sync_counts_again)) return {PushVerdict::applied};
    return look_ahead(replica, step);
  }

  bool take(std::vector<Contribution>& out) override {
    const size_t wanted = mutant(Mutant::mean_of_all_but_one) ? first_.size() - 1 : first_.size();
    if (!open() || open()->size() < wanted) return false;
    end_step(out);
    if (mutant(Mutant::sum_in_other_order)) std::rotate(out.begin(), out.begin() + 1, out.end());
    return true;
  }

  bool go_on(int32_t replica, int64_t first) override {
    leave(replica, first);
    return false;  // skip() says if an update is due
  }

  std::optional<int32_t> skip(std::vector<Contribution>& lost) override {
    if (!some_have_left()) return std::nullopt;
    const auto left = std::find_if(first_.begin(), first_.end(), [&](const auto& replica) {
      ++looks_;
      return replica.second > step_ && (!open() || !open()->count(replica.first));
    });
    if (left == first_.end()) return std::nullopt;
    if (open()) {
      const int64_t step = step_;
      std::vector<Contribution> others;
      end_step(others);
      std::move(others.begin(), others.end(), std::back_inserter(lost));
      skipped_.insert(step);
    } else {
      // Nothing waits for the steps up to the next round: as many as are remembered pass one by
      // one.
      const int64_t next = rounds_.empty() ? left->second : rounds_.begin()->first;
      step_ = std::max(step_, std::min(left->second, next) - kSkippedMax);
      skipped_.insert(step_++);
    }
    if (std::ssize(skipped_) > kSkippedMax) skipped_.erase(skipped_.begin());
    return left->first;
  }

  PullVerdict pull(int32_t, int64_t step) const override {
    if (step < 0 || step == step_) return {};
    if (step == step_ + 1 && mutant(Mutant::pull_a_step_early)) return {};
    if (skipped_.count(step)) return {PullVerdict::gone, skipped(step)};
    if (step == step_ - 1 && mutant(Mutant::previous_is_newest)) return {};
    if (step == step_ - 1) return {PullVerdict::previous};
    if (step < step_)
      return {PullVerdict::gone,
              detail::concat("the values of step ", step, " are gone: the shard is at step ", step_,
                             " and keeps one step back")};
    return pull_ahead(step);
  }

 private:
  static std::string skipped(int64_t step) {
    return detail::concat(
        "step ", step,
        " was skipped: a replica went on without a gradient for it; run it again, "
        "as a step of a new number");
  }

  std::set<int64_t> skipped_;  // the newest kSkippedMax of them
};

}  // namespace

std::unique_ptr<AggregationRule> make_sync_rule(const std::vector<ReplicaProgress>& progress) {
  return std::make_unique<SyncRule>(progress);
}

}  // namespace troupe
