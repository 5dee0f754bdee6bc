// The synchronous rule with b backup replicas: step t ends when all but b of the n replicas have
// pushed its gradient; one update with their mean, summed in replica order (Chen et al. 2016,
// "Revisiting distributed synchronous SGD"). A gradient that comes after that is late: it changes
// nothing, and its replica goes on at the newest step. A step ends with fewer gradients once no
// other replica can bring one, and without an update if none has.
#include "training/rules/rule_backup.hpp"

#include "graph/base/mutant.hpp"

#include <algorithm>
#include <map>

namespace troupe {
namespace {

// How far ahead of the open round a pull or a gradient may wait.
constexpr int64_t kAheadMax = 64;

class BackupRule final : public AggregationRule {
 public:
  BackupRule(const Aggregation& rule, const std::vector<ReplicaProgress>& progress) : rule_(rule) {
    for (const ReplicaProgress& p : progress) {
      counted_[p.replica] = p;
      first_[p.replica] = p.next_step;
    }
    if (!progress.empty()) step_ = progress.front().next_step;
    wanted_ = first_.size() - static_cast<size_t>(rule.bound);
  }

  Aggregation kind() const override { return rule_; }

  PushVerdict look(int32_t replica, int64_t step) const override {
    if (step < step_ && !mutant(Mutant::backup_counts_late)) {
      const ReplicaProgress& p = counted_.at(replica);
      const bool known = p.behind(step) < ReplicaProgress::kWindow && p.has(step);
      return {known ? PushVerdict::applied : PushVerdict::late};
    }
    if (step > step_ + kAheadMax)
      return {PushVerdict::refused,
              detail::concat("step ", step, " of replica ", replica, " is more than ", kAheadMax,
                             " steps ahead: the round of step ", step_, " is open")};
    const auto round = rounds_.find(std::max(step, step_));
    return {round != rounds_.end() && round->second.count(replica) ? PushVerdict::waiting
                                                                   : PushVerdict::kept};
  }

  void push(Contribution c) override {
    rounds_[std::max(c.step, step_)].emplace(c.replica, std::move(c));
  }

  bool take(std::vector<Contribution>& out) override {
    const auto open = rounds_.find(step_);
    if (open == rounds_.end()) return false;
    const size_t wanted = mutant(Mutant::backup_of_one_less) ? wanted_ - 1 : wanted_;
    if (open->second.size() < std::max<size_t>(wanted, 1) && may_come(open->second)) return false;
    out.clear();
    for (auto& [replica, contribution] : open->second) {
      counted_.at(replica).count(step_);
      out.push_back(std::move(contribution));
    }
    rounds_.erase(open);
    ++step_;
    empty_ = -1;
    return true;
  }

  bool go_on(int32_t replica, int64_t first) override {
    const auto mine = first_.find(replica);
    if (mine == first_.end() || first <= mine->second) return false;
    mine->second = first;
    return first > step_;
  }

  std::optional<int32_t> skip(std::vector<Contribution>&) override {
    if (rounds_.count(step_) || first_.empty() || may_come({})) return std::nullopt;
    int64_t next = first_.begin()->second;
    for (const auto& [replica, first] : first_) next = std::min(next, first);
    if (!rounds_.empty()) next = std::min(next, rounds_.begin()->first);
    step_ = next;
    empty_ = step_ - 1;
    return first_.begin()->first;
  }

  PullVerdict pull(int32_t replica, int64_t step) const override {
    if (step < 0 || step == step_ || step == empty_) return {};
    if (step == step_ - 1) return {PullVerdict::previous};
    if (step < step_)
      return {PullVerdict::gone, detail::concat("step ", step, " ended without replica ", replica,
                                                ", which was late: the shard is at step ", step_)};
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
      if (first <= step_ && (open == rounds_.end() || !open->second.count(replica)))
        out.push_back(replica);
    return out;
  }

 private:
  using Round = std::map<int32_t, Contribution>;  // by replica: the order of the sum

  // True if a replica may still push for the open round, which has these gradients.
  bool may_come(const Round& round) const {
    return std::any_of(first_.begin(), first_.end(), [&](const auto& replica) {
      return replica.second <= step_ && !round.count(replica.first);
    });
  }

  const Aggregation rule_;
  std::map<int32_t, ReplicaProgress> counted_;  // the gradients that made updates
  std::map<int32_t, int64_t> first_;  // by replica: no gradient of an earlier step comes any more
  size_t wanted_ = 1;                 // gradients that end a round
  int64_t step_ = 0;                  // the open round's
  int64_t empty_ = -1;                // the step before it, if that made no update
  std::map<int64_t, Round> rounds_;   // by step: the open one and those ahead of it
};

}  // namespace

std::unique_ptr<AggregationRule> make_backup_rule(const Aggregation& rule,
                                                  const std::vector<ReplicaProgress>& progress) {
  return std::make_unique<BackupRule>(rule, progress);
}

}  // namespace troupe
