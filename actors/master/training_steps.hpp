// TrainingSteps: the training steps of one session, by replica: the next number, and the steps
// under way.
// Owner: RunTable. Thread: any, one at a time (the lock of RunTable).
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "troupe/op.hpp"

namespace troupe {

class TrainingSteps {
 public:
  // Runs under way that told shards of fewer finished steps than there are by now: shards may wait
  // for pushes that never come.
  struct Behind {
    int64_t replica = 0, first = 0;  // earlier steps are over
    std::vector<int64_t> calls;      // the calls of those runs
  };

  // Begins a run of `call` that advances these replicas, at step `wanted` or, if that is negative,
  // at the next step of all of them; sets `context`'s step. A caller that counts the steps itself
  // may repeat one. If the steps are counted here, sets the first step that is not over, too: the
  // oldest one under way.
  void begin(const std::vector<int64_t>& replicas, int64_t wanted, RunContext& context,
             int64_t call) {
    context.step = wanted;
    if (replicas.empty()) return;
    if (wanted < 0)
      for (int64_t replica : replicas) context.step = std::max(context.step, steps_[replica].next);
    context.step = std::max<int64_t>(context.step, 0);
    int64_t first = context.step;
    for (int64_t replica : replicas) {
      Steps& steps = steps_[replica];
      if (steps.open.empty()) steps.by_hand = steps.gaps = false;
      steps.by_hand |= wanted >= 0;
      steps.gaps |= !steps.open.empty() && steps.open.begin()->second != call;
      steps.next = context.step + 1;
      steps.open.emplace(context.step, call);
      first = std::min(first, steps.open.begin()->first);
    }
    if (wanted < 0) context.first_step = first;
  }
  // The run has ended in all its parts; `whole`: with all its pushes.
  std::vector<Behind> end(const std::vector<int64_t>& replicas, int64_t step, int64_t call,
                          bool whole) {
    std::vector<Behind> out;
    for (int64_t replica : replicas) {
      Steps& steps = steps_[replica];
      const auto [from, to] = steps.open.equal_range(step);
      const auto it = std::find_if(from, to, [&](const auto& run) { return run.second == call; });
      if (it == to) continue;
      const bool oldest = it == steps.open.begin();
      steps.open.erase(it);
      steps.gaps |= !whole;
      if (!oldest || !steps.gaps || steps.by_hand || steps.open.empty()) continue;
      Behind behind{replica, steps.open.begin()->first, {}};
      for (const auto& [open, of] : steps.open) behind.calls.push_back(of);
      out.push_back(std::move(behind));
    }
    return out;
  }
  void set_next(int64_t replica, int64_t step) { steps_[replica].next = step; }
  // None while a step of the replica is under way.
  std::optional<int64_t> next(int64_t replica) const {
    const auto it = steps_.find(replica);
    if (it == steps_.end()) return 0;
    return it->second.open.empty() ? std::optional(it->second.next) : std::nullopt;
  }

 private:
  struct Steps {
    int64_t next = 0;
    std::multimap<int64_t, int64_t> open;  // by step: the run's call
    bool by_hand = false;                  // some of those under way are numbered by their callers
    bool gaps = false;  // since `open` was last empty, a step has not pushed all that others push
  };
  std::map<int64_t, Steps> steps_;  // by replica
};

}  // namespace troupe
