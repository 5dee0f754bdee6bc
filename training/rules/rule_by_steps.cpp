// Rounds of gradients, by step.
#include "training/rules/rule_by_steps.hpp"

#include <algorithm>

namespace troupe {
namespace {

// How far ahead of the open round a pull or a gradient may wait; a replica has no more steps in
// flight.
constexpr int64_t kAheadMax = 64;

}  // namespace

RuleBySteps::RuleBySteps(const std::vector<ReplicaProgress>& progress) {
  for (const ReplicaProgress& p : progress) first_[p.replica] = p.next_step;
  if (!progress.empty()) step_ = farthest_ = progress.front().next_step;
}

const RuleBySteps::Round* RuleBySteps::find(int64_t step) const {
  const auto round = rounds_.find(step);
  return round == rounds_.end() ? nullptr : &round->second;
}

RuleBySteps::Round* RuleBySteps::find(int64_t step) {
  const auto round = rounds_.find(step);
  return round == rounds_.end() ? nullptr : &round->second;
}

void RuleBySteps::push(Contribution c) { rounds_[c.step].emplace(c.replica, std::move(c)); }

void RuleBySteps::end_step(std::vector<Contribution>& out) {
  out.clear();
  for (auto& [replica, contribution] : *open()) out.push_back(std::move(contribution));
  rounds_.erase(step_++);
}

AggregationRule::PushVerdict RuleBySteps::look_ahead(int32_t replica, int64_t step) const {
  if (step > step_ + kAheadMax)
    return {PushVerdict::refused,
            detail::concat("step ", step, " of replica ", replica, " is more than ", kAheadMax,
                           " steps ahead: the round of step ", step_,
                           " is open; run fewer steps of a replica at once, without a gap")};
  const Round* const round = find(step);
  return {round && round->count(replica) ? PushVerdict::waiting : PushVerdict::kept};
}

AggregationRule::PullVerdict RuleBySteps::pull_of(int32_t replica, int64_t step,
                                                  const char* ended) const {
  if (step < 0 || step == step_ || step == empty_) return {};
  if (step == step_ - 1) return {PullVerdict::previous};
  if (step < step_)
    return {PullVerdict::gone, detail::concat("step ", step, " ended without replica ", replica,
                                              ", ", ended, ": the shard is at step ", step_)};
  return pull_ahead(step);
}

AggregationRule::PullVerdict RuleBySteps::pull_ahead(int64_t step) const {
  if (step > step_ + kAheadMax)
    return {PullVerdict::gone,
            detail::concat("step ", step, " is more than ", kAheadMax,
                           " steps ahead of the shard, which is at step ", step_)};
  return {PullVerdict::wait};
}

bool RuleBySteps::leave(int32_t replica, int64_t first) {
  const auto mine = first_.find(replica);
  if (mine == first_.end() || first <= mine->second) return false;
  mine->second = first;
  farthest_ = std::max(farthest_, first);
  return true;
}

std::vector<ReplicaProgress> RuleBySteps::progress() const {
  std::vector<ReplicaProgress> out;
  for (const auto& [replica, first] : first_)
    out.push_back({.replica = replica, .next_step = step_});
  return out;
}

int64_t RuleBySteps::held() const {
  int64_t n = 0;
  for (const auto& [step, round] : rounds_) n += static_cast<int64_t>(round.size());
  return n;
}

std::vector<int32_t> RuleBySteps::missing() const {
  std::vector<int32_t> out;
  if (rounds_.empty()) return out;
  const Round* const round = open();
  for (const auto& [replica, first] : first_)
    if (first <= step_ && (!round || !round->count(replica))) out.push_back(replica);
  return out;
}

}  // namespace troupe
