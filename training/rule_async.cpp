// The asynchronous rule: each gradient is an update, in the order of arrival (Dean et al. 2012);
// pulls never wait.
#include "training/rule_async.hpp"

#include <algorithm>
#include <map>

namespace troupe {
namespace {

// Steps of one slot that are remembered one by one; older ones are only known to be old.
constexpr int64_t kWindow = 64;

class AsyncRule final : public AggregationRule {
 public:
  explicit AsyncRule(const std::vector<SlotProgress>& progress) {
    for (const SlotProgress& p : progress) slots_[p.slot] = p;
  }

  Aggregation kind() const override { return Aggregation::async; }

  PushVerdict look(int32_t slot, int64_t step) const override {
    const SlotProgress& p = slots_.at(slot);
    const int64_t back = p.next_step - 1 - step;  // 0: the newest counted step
    if (back < 0) return {};
    if (back >= kWindow)
      return {
          PushVerdict::refused,
          detail::concat("step ", step, " is ", back, " steps older than the newest one of slot ",
                         slot, "; at most ", kWindow - 1, " are remembered")};
    if (!(p.counted >> back & 1)) return {};
    return {next_ && next_->slot == slot && next_->step == step ? PushVerdict::waiting
                                                                : PushVerdict::applied};
  }

  void push(Contribution c) override {
    TROUPE_CHECK(!next_, "slot ", c.slot, " pushed step ", c.step,
                 " before the last gradient was applied");
    SlotProgress& p = slots_.at(c.slot);
    const int64_t ahead = c.step + 1 - p.next_step;
    if (ahead > 0) {
      p.counted = (ahead >= kWindow ? 0 : p.counted << ahead) | 1;
      p.next_step = c.step + 1;
    } else {
      p.counted |= uint64_t{1} << -ahead;
    }
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
  int compare_step(int64_t) const override { return 0; }
  int64_t next_step() const override {
    int64_t least = slots_.empty() ? 0 : slots_.begin()->second.next_step;
    for (const auto& [slot, p] : slots_) least = std::min(least, p.next_step);
    return least;
  }
  std::vector<SlotProgress> progress() const override {
    std::vector<SlotProgress> out;
    for (const auto& [slot, p] : slots_) out.push_back(p);
    return out;
  }
  int64_t held() const override { return next_ ? 1 : 0; }
  std::vector<int32_t> missing() const override { return {}; }

 private:
  std::map<int32_t, SlotProgress> slots_;
  std::unique_ptr<Contribution> next_;
};

}  // namespace

std::unique_ptr<AggregationRule> make_async_rule(const std::vector<SlotProgress>& progress) {
  return std::make_unique<AsyncRule>(progress);
}

}  // namespace troupe
