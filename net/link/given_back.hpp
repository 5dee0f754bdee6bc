// GivenBack: the loans of a link's peer that have ended here, which the next frame to the peer
// tells. Owner: the link; its borrowed tensors share it. Thread: any.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

namespace troupe {

class GivenBack {
 public:
  void add(uint64_t loan) {
    std::lock_guard lock(mutex_);
    loans_.push_back(loan);
    any_.store(true, std::memory_order_relaxed);
  }
  static constexpr size_t kLoansMax = 1024;
  // Takes at most kLoansMax of them.
  std::vector<uint64_t> take() {
    if (!any_.load(std::memory_order_relaxed)) return {};
    std::lock_guard lock(mutex_);
    const auto count = static_cast<ptrdiff_t>(std::min(loans_.size(), kLoansMax));
    const std::vector<uint64_t> out(loans_.end() - count, loans_.end());
    loans_.erase(loans_.end() - count, loans_.end());
    any_.store(!loans_.empty(), std::memory_order_relaxed);
    return out;
  }

 private:
  std::atomic<bool> any_{false};
  std::mutex mutex_;  // guards the next
  std::vector<uint64_t> loans_;
};

}  // namespace troupe
