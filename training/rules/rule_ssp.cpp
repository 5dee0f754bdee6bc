// Bounded staleness: each gradient is an update, in the order of arrival, and a pull of step t
// waits until the slowest replica has done all steps before t - s (stale synchronous parallel, Ho
// et al. 2013, "More effective distributed ML via a stale synchronous parallel parameter server").
// A pull without a step does not wait.
#include "training/rules/rule_ssp.hpp"

#include "graph/base/mutant.hpp"
#include "training/rules/rule_async.hpp"

#include <algorithm>
#include <map>

namespace troupe {
namespace {

class SspRule final : public AggregationRule {
 public:
  SspRule(const Aggregation& rule, const std::vector<ReplicaProgress>& progress)
      : rule_(rule), updates_(make_async_rule(rule, progress)) {
    for (const ReplicaProgress& p : progress) done_[p.replica] = p.next_step;
  }

  Aggregation kind() const override { return rule_; }
  PushVerdict look(int32_t replica, int64_t step) const override {
    return updates_->look(replica, step);
  }
  void push(Contribution c) override {
    int64_t& done = done_.at(c.replica);
    done = std::max(done, c.step + 1);
    updates_->push(std::move(c));
  }
  bool take(std::vector<Contribution>& out) override { return updates_->take(out); }

  bool go_on(int32_t replica, int64_t first) override {
    const auto mine = done_.find(replica);
    if (mine == done_.end() || first <= mine->second) return false;
    mine->second = first;
    return true;
  }

  PullVerdict pull(int32_t, int64_t step) const override {
    if (step - slowest() > rule_.bound && !mutant(Mutant::ssp_without_bound))
      return {PullVerdict::wait};
    return {};
  }
  int compare_step(int64_t step) const override { return updates_->compare_step(step); }
  int64_t next_step() const override { return updates_->next_step(); }
  std::vector<ReplicaProgress> progress() const override { return updates_->progress(); }
  int64_t held() const override { return updates_->held(); }
  std::vector<int32_t> missing() const override {
    int64_t fastest = 0;
    for (const auto& [replica, done] : done_) fastest = std::max(fastest, done);
    std::vector<int32_t> out;
    for (const auto& [replica, done] : done_)
      if (fastest - done > rule_.bound) out.push_back(replica);
    return out;
  }

 private:
  int64_t slowest() const {
    int64_t least = INT64_MAX;
    for (const auto& [replica, done] : done_) least = std::min(least, done);
    return least;
  }

  const Aggregation rule_;
  const std::unique_ptr<AggregationRule> updates_;
  std::map<int32_t, int64_t> done_;  // by replica: no gradient of an earlier step comes any more
};

}  // namespace

std::unique_ptr<AggregationRule> make_ssp_rule(const Aggregation& rule,
                                               const std::vector<ReplicaProgress>& progress) {
  return std::make_unique<SspRule>(rule, progress);
}

}  // namespace troupe
