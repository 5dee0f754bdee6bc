// Bounded staleness: each gradient is an update, in the order of arrival, and a pull of step t
// waits until the slowest replica has done all steps before t - s (stale synchronous parallel, Ho
// et al. 2013, "More effective distributed ML via a stale synchronous parallel parameter server").
// A pull without a step does not wait.
#include "training/rules/rule_ssp.hpp"

#include "graph/base/mutant.hpp"
#include "training/rules/rule_async.hpp"

#include <map>

namespace troupe {
namespace {

class SspRule final : public AggregationRule {
 public:
  SspRule(const Aggregation& rule, const std::vector<ReplicaProgress>& progress)
      : rule_(rule), updates_(make_async_rule(rule, progress)) {
    for (const ReplicaProgress& p : progress) {
      done_[p.replica] = p.next_step;
      ++replicas_at_[p.next_step];
    }
  }

  Aggregation kind() const override { return rule_; }
  PushVerdict look(int32_t replica, int64_t step) const override {
    return updates_->look(replica, step);
  }
  void push(Contribution c) override {
    move_on(done_.at(c.replica), c.step + 1);
    updates_->push(std::move(c));
  }
  bool take(std::vector<Contribution>& out) override { return updates_->take(out); }

  bool go_on(int32_t replica, int64_t first) override {
    const auto mine = done_.find(replica);
    return mine != done_.end() && move_on(mine->second, first);
  }

  PullVerdict pull(int32_t, int64_t step) const override {
    if (step > open_to() && !mutant(Mutant::ssp_without_bound)) return {PullVerdict::wait};
    return {};
  }
  int64_t open_to() const override {
    if (replicas_at_.empty()) return INT64_MAX;
    const int64_t slowest = replicas_at_.begin()->first;
    return slowest > INT64_MAX - rule_.bound ? INT64_MAX : slowest + rule_.bound;
  }
  int compare_step(int64_t step) const override { return updates_->compare_step(step); }
  int64_t next_step() const override { return updates_->next_step(); }
  std::vector<ReplicaProgress> progress() const override { return updates_->progress(); }
  int64_t held() const override { return updates_->held(); }
  std::vector<int32_t> missing() const override {
    std::vector<int32_t> out;
    if (replicas_at_.empty()) return out;
    const int64_t fastest = replicas_at_.rbegin()->first;
    for (const auto& [replica, done] : done_)
      if (fastest - done > rule_.bound) out.push_back(replica);
    return out;
  }

 private:
  bool move_on(int64_t& done, int64_t to) {  // false: it is there
    if (to <= done) return false;
    const auto before = replicas_at_.find(done);
    if (--before->second == 0) replicas_at_.erase(before);
    ++replicas_at_[to];
    done = to;
    return true;
  }

  const Aggregation rule_;
  const std::unique_ptr<AggregationRule> updates_;
  std::map<int32_t, int64_t> done_;  // by replica: no gradient of an earlier step comes any more
  std::map<int64_t, int64_t> replicas_at_;  // by that step: the number of replicas
};

}  // namespace

std::unique_ptr<AggregationRule> make_ssp_rule(const Aggregation& rule,
                                               const std::vector<ReplicaProgress>& progress) {
  return std::make_unique<SspRule>(rule, progress);
}

}  // namespace troupe
