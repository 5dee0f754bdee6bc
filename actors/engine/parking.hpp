// Parking: the place where the caller of a step sleeps until the step has ended, or until the step
// has arrivals and the caller is given the step as its owner.
//
// Owner: the step. Thread: one caller sleeps; any thread gives or ends.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>

namespace troupe {

class Parking {
 public:
  enum class Woken { given, late, ended };

  void arm() {
    ended_.store(false, std::memory_order_relaxed);
    caller_.store(kAwake, std::memory_order_relaxed);
  }
  // Requires: no other thread sleeps here. `given`: the caller owns the step now.
  Woken sleep(std::chrono::steady_clock::time_point deadline) {
    for (;;) {
      if (has_ended()) {
        std::lock_guard lock(mutex_);  // the thread that ended the step has let go of it
        return Woken::ended;
      }
      caller_.store(kAsleep, std::memory_order_release);
      bool timed_out = false;
      {
        std::unique_lock lock(mutex_);
        timed_out = !changed_.wait_until(lock, deadline, [&] {
          return has_ended() || caller_.load(std::memory_order_acquire) == kGiven;
        });
      }
      if (caller_.exchange(kAwake, std::memory_order_acq_rel) == kGiven) return Woken::given;
      if (timed_out && !has_ended()) return Woken::late;
    }
  }
  // Gives the step to a caller that sleeps. False: none does.
  bool give() {
    int sleeping = kAsleep;
    if (!caller_.compare_exchange_strong(sleeping, kGiven, std::memory_order_acq_rel)) return false;
    std::lock_guard lock(mutex_);
    changed_.notify_all();
    return true;
  }
  // The step has ended. The caller may release it as soon as this returns, or earlier.
  void end() {
    std::lock_guard lock(mutex_);
    ended_.store(true, std::memory_order_release);
    if (caller_.load(std::memory_order_relaxed) == kAsleep) changed_.notify_all();
  }
  // The same where no caller sleeps.
  void end_alone() { ended_.store(true, std::memory_order_release); }

 private:
  static constexpr int kAwake = 0, kAsleep = 1, kGiven = 2;
  bool has_ended() const { return ended_.load(std::memory_order_acquire); }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::atomic<int> caller_{kAwake};
  std::atomic<bool> ended_{false};
};

}  // namespace troupe
