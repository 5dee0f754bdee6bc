// SharedLink: transfers of equal size that share a link evenly, in virtual time. One that is alone
// takes `seconds`, and one of n takes n times as long.
// Owner: VirtualWorkers. Thread: its caller's.
#pragma once

#include <cstdint>
#include <deque>
#include <limits>
#include <utility>

namespace troupe::bench {

class SharedLink {
 public:
  explicit SharedLink(double seconds) : seconds_(seconds) {}

  void add(double now, int32_t worker) {
    pass(now);
    under_way_.emplace_back(each_ + seconds_, worker);
  }
  // When the next transfer ends if no other one begins; infinity if there is none.
  double next() const {
    if (under_way_.empty()) return std::numeric_limits<double>::infinity();
    return at_ + (under_way_.front().first - each_) * static_cast<double>(under_way_.size());
  }
  // Ends the next transfer; returns its worker. Requires: there is one, and the time is next().
  int32_t end(double now) {
    pass(now);
    const int32_t worker = under_way_.front().second;
    under_way_.pop_front();
    return worker;
  }

 private:
  void pass(double now) {
    if (!under_way_.empty()) each_ += (now - at_) / static_cast<double>(under_way_.size());
    at_ = now;
  }

  double seconds_;
  double at_ = 0, each_ = 0;  // the time, and the seconds of the link that each one has had by then
  std::deque<std::pair<double, int32_t>> under_way_;  // until each_ is the first; in this order
};

}  // namespace troupe::bench
