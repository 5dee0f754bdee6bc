// OpenSteps: the steps that a program has begun. One that is under way for long is to be in the
// program's log, with all that it waits for (I17): the master reports it once (report_stall()).
#pragma once

#include <map>
#include <string>

#include "chaos/history.hpp"

namespace troupe::sim {

class OpenSteps {
 public:
  static constexpr int64_t kTickMs = 50;
  // 5 s without progress, 1 s for the answers of others, and as much again for the network.
  static constexpr int64_t kToldAfterMs = 7000;

  int64_t add() {
    open_[next_] = kIdle;
    return next_++;
  }
  void starts(int64_t step) { open_[step] = 0; }  // now it is under way,
  void ends(int64_t step) { open_[step] = kIdle; }
  void remove(int64_t step) { open_.erase(step); }  // and the program knows that it has ended
  int64_t size() const { return static_cast<int64_t>(open_.size()); }

  void log(const std::string& line) {
    told_ += line.starts_with("still under way: ") || line.starts_with("a run has not begun: ");
  }
  // Every kTickMs in which the program is not frozen. Throws: Violation.
  void tick() {
    for (auto& [step, ms] : open_)
      if (ms != kIdle && (ms += kTickMs) == kToldAfterMs && ++late_ > told_)
        throw Violation{"I17", detail::concat("a step is under way for ", ms,
                                              " ms, and the program has not said so")};
  }

 private:
  static constexpr int64_t kIdle = -1;

  std::map<int64_t, int64_t> open_;  // for how many ms each is under way
  int64_t next_ = 0, late_ = 0, told_ = 0;
};

}  // namespace troupe::sim
