// SlotSteps: the training steps of one session, by slot: which number is the next one, and which
// are under way. Plain; its owner has it behind a lock.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "troupe/op.hpp"

namespace troupe {

class SlotSteps {
 public:
  // A run that advances these slots, at the step its caller wants or, if that is negative, at the
  // next one of all of them; sets `context`'s step. Who counts the steps himself may do one again;
  // of those that are counted here, the ones before all that are under way are over.
  void begin(const std::vector<int64_t>& slots, int64_t wanted, RunContext& context) {
    context.step = wanted;
    if (slots.empty()) return;
    if (wanted < 0)
      for (int64_t slot : slots) context.step = std::max(context.step, steps_[slot].next);
    context.step = std::max<int64_t>(context.step, 0);
    int64_t first = context.step;
    for (int64_t slot : slots) {
      Steps& steps = steps_[slot];
      steps.next = context.step + 1;
      steps.open.insert(context.step);
      first = std::min(first, *steps.open.begin());
    }
    if (wanted < 0) context.first_step = first;
  }
  // It has ended in all its parts.
  void end(const std::vector<int64_t>& slots, int64_t step) {
    for (int64_t slot : slots) {
      auto& open = steps_[slot].open;
      if (const auto it = open.find(step); it != open.end()) open.erase(it);
    }
  }
  void set_next(int64_t slot, int64_t step) { steps_[slot].next = step; }

 private:
  struct Steps {
    int64_t next = 0;
    std::multiset<int64_t> open;
  };
  std::map<int64_t, Steps> steps_;  // by slot
};

}  // namespace troupe
