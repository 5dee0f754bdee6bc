// The synchronous rule: step t ends when every slot has pushed its gradient of step t; one update
// with their mean, summed in slot order, makes the values that step t + 1 reads (Chen et al. 2016).
// Arrival order never changes a bit.
#include "training/rule_sync.hpp"

#include <algorithm>
#include <array>
#include <map>

namespace troupe {
namespace {

// How far ahead of the open round a pull may wait; a slot has no more steps in flight.
constexpr int64_t kPullAheadMax = 64;

class SyncRule final : public AggregationRule {
 public:
  explicit SyncRule(const std::vector<SlotProgress>& progress) {
    for (const SlotProgress& p : progress) slots_.push_back(p.slot);
    if (!progress.empty()) step_ = progress.front().next_step;
  }

  Aggregation kind() const override { return Aggregation::sync; }

  PushVerdict look(int32_t slot, int64_t step) const override {
    if (step < step_) return {PushVerdict::applied};
    if (step > step_ + 1)
      return {PushVerdict::refused,
              detail::concat("step ", step, " of slot ", slot, " is ahead: the round of step ",
                             step_, " is open; pull before computing a step")};
    const Round& round = rounds_[static_cast<size_t>(step - step_)];
    return {round.count(slot) ? PushVerdict::waiting : PushVerdict::kept};
  }

  void push(Contribution c) override {
    rounds_[static_cast<size_t>(c.step - step_)].emplace(c.slot, std::move(c));
  }

  bool take(std::vector<Contribution>& out) override {
    Round& open = rounds_[0];
    if (slots_.empty() || open.size() < slots_.size()) return false;
    out.clear();
    for (auto& [slot, contribution] : open) out.push_back(std::move(contribution));
    rounds_[0] = std::move(rounds_[1]);
    rounds_[1].clear();
    ++step_;
    return true;
  }

  PullVerdict pull(int32_t, int64_t step) const override {
    if (step < 0 || step == step_) return {};
    if (step == step_ - 1) return {PullVerdict::previous};
    if (step < step_)
      return {PullVerdict::gone,
              detail::concat("the values of step ", step, " are gone: the shard is at step ", step_,
                             " and keeps one step back")};
    if (step > step_ + kPullAheadMax)
      return {PullVerdict::gone,
              detail::concat("step ", step, " is more than ", kPullAheadMax,
                             " steps ahead of the shard, which is at step ", step_)};
    return {PullVerdict::wait};
  }

  int compare_step(int64_t step) const override {
    return step == step_ ? 0 : step > step_ ? 1 : -1;
  }
  int64_t next_step() const override { return step_; }
  std::vector<SlotProgress> progress() const override {
    std::vector<SlotProgress> out;
    for (int32_t slot : slots_) out.push_back({.slot = slot, .next_step = step_});
    return out;
  }
  int64_t held() const override {
    return static_cast<int64_t>(rounds_[0].size() + rounds_[1].size());
  }
  std::vector<int32_t> missing() const override {
    std::vector<int32_t> out;
    if (held() == 0) return out;
    for (int32_t slot : slots_)
      if (!rounds_[0].count(slot)) out.push_back(slot);
    return out;
  }

 private:
  using Round = std::map<int32_t, Contribution>;  // by slot: the order of the sum

  std::vector<int32_t> slots_;  // ascending
  int64_t step_ = 0;            // of rounds_[0]
  std::array<Round, 2> rounds_;
};

}  // namespace

std::unique_ptr<AggregationRule> make_sync_rule(const std::vector<SlotProgress>& progress) {
  return std::make_unique<SyncRule>(progress);
}

}  // namespace troupe
