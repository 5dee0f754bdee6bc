// The asynchronous rule: each gradient is an update, in the order of arrival (Dean et al. 2012).
// Pulls never wait.
#include "training/rules/rule_async.hpp"

#include "graph/base/mutant.hpp"

#include <algorithm>
#include <map>

namespace troupe {
namespace {

class AsyncRule final : public AggregationRule {
 public:
  AsyncRule(const Aggregation& rule, const std::vector<ReplicaProgress>& progress) : rule_(rule) {
    for (const ReplicaProgress& p : progress) replicas_[p.replica] = p;
  }

  Aggregation kind() const override { return rule_; }

  PushVerdict look(int32_t replica, int64_t step) const override {
    const ReplicaProgress& p = replicas_.at(replica);
    if (p.behind(step) >= ReplicaProgress::kWindow) return {PushVerdict::refused, p.too_old(step)};
    if (!p.has(step) || mutant(Mutant::async_applies_again)) return {};
    return {next_ && next_->replica == replica && next_->step == step ? PushVerdict::waiting
                                                                      : PushVerdict::applied};
  }

  void push(Contribution c) override {
    TROUPE_CHECK(!next_, "replica ", c.replica, " pushed step ", c.step,
                 " before the last gradient was applied");
    if (!mutant(Mutant::async_does_not_count)) replicas_.at(c.replica).count(c.step);
    next_ = std::make_unique<Contribution>(std::move(c));
  }

  bool take(std::vector<Contribution>& out) override {
    if (!next_) return false;
    out.clear();
    out.push_back(std::move(*next_));
    next_.reset();
    return true;
  }

  PullVerdict pull(int32_t, int64_t) const override { return {}; }
  int64_t open_to() const override { return INT64_MAX; }
  int compare_step(int64_t) const override { return 0; }
  int64_t next_step() const override {
    int64_t least = replicas_.empty() ? 0 : replicas_.begin()->second.next_step;
    for (const auto& [replica, p] : replicas_) least = std::min(least, p.next_step);
    return least;
  }
  std::vector<ReplicaProgress> progress() const override {
    std::vector<ReplicaProgress> out;
    for (const auto& [replica, p] : replicas_) out.push_back(p);
    return out;
  }
  int64_t held() const override { return next_ ? 1 : 0; }
  std::vector<int32_t> missing() const override { return {}; }

 private:
  const Aggregation rule_;
  std::map<int32_t, ReplicaProgress> replicas_;
  std::unique_ptr<Contribution> next_;
};

}  // namespace

std::unique_ptr<AggregationRule> make_async_rule(const Aggregation& rule,
                                                 const std::vector<ReplicaProgress>& progress) {
  return std::make_unique<AsyncRule>(rule, progress);
}

}  // namespace troupe
