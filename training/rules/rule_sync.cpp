// The synchronous rule: step t ends when every replica has pushed its gradient of step t; one
// update with their mean, summed in replica order, makes the values that step t + 1 reads (Chen et
// al. 2016). The order of arrival never changes a bit. A step that a replica has passed without a
// gradient makes no update: the rule skips it and drops the gradients that others pushed for it.
#include "training/rules/rule_sync.hpp"

#include "graph/base/mutant.hpp"

#include <algorithm>
#include <map>
#include <set>

namespace troupe {
namespace {

// How far ahead of the open round a pull or a gradient may wait; a replica has no more steps in
// flight.
constexpr int64_t kAheadMax = 64;
// The number of skipped steps that are remembered one by one.
constexpr int64_t kSkippedMax = 64;

class SyncRule final : public AggregationRule {
 public:
  explicit SyncRule(const std::vector<ReplicaProgress>& progress) {
    for (const ReplicaProgress& p : progress) first_[p.replica] = p.next_step;
    if (!progress.empty()) step_ = progress.front().next_step;
  }

  Aggregation kind() const override { return Aggregation::sync; }

  PushVerdict look(int32_t replica, int64_t step) const override {
    if (skipped_.count(step)) return {PushVerdict::refused, skipped(step)};
    if (step < step_ && !mutant(Mutant::sync_counts_again)) return {PushVerdict::applied};
    if (step > step_ + kAheadMax)
      return {PushVerdict::refused,
              detail::concat("step ", step, " of replica ", replica, " is more than ", kAheadMax,
                             " steps ahead: the round of step ", step_,
                             " is open; run fewer steps of a replica at once, without a gap")};
    const auto round = rounds_.find(step);
    return {round != rounds_.end() && round->second.count(replica) ? PushVerdict::waiting
                                                                   : PushVerdict::kept};
  }

  void push(Contribution c) override { rounds_[c.step].emplace(c.replica, std::move(c)); }

  bool take(std::vector<Contribution>& out) override {
    const auto open = rounds_.find(step_);
    const size_t wanted = mutant(Mutant::mean_of_all_but_one) ? first_.size() - 1 : first_.size();
    if (open == rounds_.end() || open->second.size() < wanted) return false;
    out.clear();
    for (auto& [replica, contribution] : open->second) out.push_back(std::move(contribution));
    if (mutant(Mutant::sum_in_other_order)) std::rotate(out.begin(), out.begin() + 1, out.end());
    rounds_.erase(open);
    ++step_;
    return true;
  }

  bool go_on(int32_t replica, int64_t first) override {
    const auto mine = first_.find(replica);
    if (mine != first_.end()) mine->second = std::max(mine->second, first);
    return false;  // skip() says
  }

  std::optional<int32_t> skip(std::vector<Contribution>& lost) override {
    const auto open = rounds_.find(step_);
    const auto left = std::find_if(first_.begin(), first_.end(), [&](const auto& replica) {
      return replica.second > step_ &&
             (open == rounds_.end() || !open->second.count(replica.first));
    });
    if (left == first_.end()) return std::nullopt;
    if (open == rounds_.end()) {
      // Nothing waits for the steps up to the next round: as many as are remembered pass one by
      // one.
      const int64_t next = rounds_.empty() ? left->second : rounds_.begin()->first;
      step_ = std::max(step_, std::min(left->second, next) - kSkippedMax);
    } else {
      for (auto& [replica, contribution] : open->second) lost.push_back(std::move(contribution));
      rounds_.erase(open);
    }
    skipped_.insert(skipped_.end(), step_++);
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
    if (step > step_ + kAheadMax)
      return {PullVerdict::gone,
              detail::concat("step ", step, " is more than ", kAheadMax,
                             " steps ahead of the shard, which is at step ", step_)};
    return {PullVerdict::wait};
  }

  int compare_step(int64_t step) const override {
    return step == step_ ? 0 : step > step_ ? 1 : -1;
  }
  int64_t next_step() const override { return step_; }
  std::vector<ReplicaProgress> progress() const override {
    std::vector<ReplicaProgress> out;
    for (const auto& [replica, first] : first_)
      out.push_back({.replica = replica, .next_step = step_});
    return out;
  }
  int64_t held() const override {
    int64_t n = 0;
    for (const auto& [step, round] : rounds_) n += static_cast<int64_t>(round.size());
    return n;
  }
  std::vector<int32_t> missing() const override {
    std::vector<int32_t> out;
    if (rounds_.empty()) return out;
    const auto open = rounds_.find(step_);
    for (const auto& [replica, first] : first_)
      if (open == rounds_.end() || !open->second.count(replica)) out.push_back(replica);
    return out;
  }

 private:
  using Round = std::map<int32_t, Contribution>;  // by replica: the order of the sum

  static std::string skipped(int64_t step) {
    return detail::concat(
        "step ", step,
        " was skipped: a replica went on without a gradient for it; run it again, "
        "as a step of a new number");
  }

  std::map<int32_t, int64_t> first_;  // by replica: no gradient of an earlier step comes any more
  int64_t step_ = 0;                  // the open round's
  std::map<int64_t, Round> rounds_;   // by step: the open one and those ahead of it
  std::set<int64_t> skipped_;         // the newest kSkippedMax of them
};

}  // namespace

std::unique_ptr<AggregationRule> make_sync_rule(const std::vector<ReplicaProgress>& progress) {
  return std::make_unique<SyncRule>(progress);
}

}  // namespace troupe
