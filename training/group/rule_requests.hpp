// RuleRequests: the way of a program's request for another rule to the training that is to take it.
// Owner: the group. Thread: any.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <utility>

#include "troupe/training.hpp"

namespace troupe {

class RuleRequests {
 public:
  // Takes a rule that is to hold from a step on, on the thread that asks. Throws:
  // Error(invalid_argument) for a rule that cannot hold.
  using Take = std::function<void(const Aggregation& rule, int64_t step)>;

  void begin(Take take) {  // a training takes them
    std::lock_guard lock(mutex_);
    take_ = std::move(take);
  }
  void end() { begin({}); }  // `take` is not called any more
  // False: nothing trains. Throws: as `take`.
  bool ask(const Aggregation& rule, int64_t step) const {
    std::lock_guard lock(mutex_);
    if (take_) take_(rule, step);
    return take_ != nullptr;
  }

 private:
  mutable std::mutex mutex_;  // guards the rest
  Take take_;
};

}  // namespace troupe
