// Backoff: when work that fails again and again is tried next: 20 ms after the first failure in a
// row, then after twice as long each time, up to 1 s.
// Owner: the one that repeats the work. Thread: the owner's.
#pragma once

#include <algorithm>
#include <chrono>

namespace troupe {

class Backoff {
 public:
  using Millis = std::chrono::milliseconds;

  // The time from the `failures`-th failure in a row to the next try; 0 failures: none.
  static Millis wait(int failures) {
    constexpr Millis kFirst{20}, kMax{1000};
    return failures == 0 ? Millis(0) : std::min(kMax, kFirst * (1 << std::min(failures - 1, 6)));
  }

  // The next try is due at `at`; no failure is behind it.
  explicit Backoff(Millis at = Millis(0)) : at_(at) {}
  bool due(Millis now) const { return now >= at_; }
  // True for the first failure in a row.
  bool failed(Millis now) {
    at_ = now + wait(++failures_);
    return failures_ == 1;
  }
  // The row of failures has ended.
  void succeeded() { failures_ = 0; }

 private:
  int failures_ = 0;  // in a row
  Millis at_;
};

}  // namespace troupe
