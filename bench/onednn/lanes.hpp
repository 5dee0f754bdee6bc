// A few threads that share the jobs of one loop. The caller is one of them; the others spin for a
// moment after a loop and then sleep. Jobs are taken one at a time, so a thread that loses its core
// delays one job, not half of the loop.
#pragma once

#include <immintrin.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <climits>
#include <cstdint>
#include <thread>
#include <type_traits>
#include <vector>

namespace onednn_loops {

class Lanes {
 public:
  explicit Lanes(int threads) {
    for (int i = 1; i < threads; ++i) helpers_.emplace_back([this, i] { help(i); });
  }
  ~Lanes() {
    stop_.store(true);
    signal_.fetch_add(1);
    wake();
    for (std::thread& helper : helpers_) helper.join();
  }
  Lanes(const Lanes&) = delete;

  int threads() const { return static_cast<int>(helpers_.size()) + 1; }

  // Calls f(job, lane) for all jobs; lanes are 0 .. threads() - 1. Not callable within a job.
  template <class F>
  void run(uint32_t jobs, F&& f) {
    if (helpers_.empty() || jobs <= 1) {
      for (uint32_t j = 0; j < jobs; ++j) f(j, 0);
      return;
    }
    call_ = [](void* c, uint32_t job, int lane) {
      (*static_cast<std::remove_reference_t<F>*>(c))(job, lane);
    };
    context_ = &f;
    done_.store(0, std::memory_order_relaxed);
    word_.store(++epoch_ << 48 | uint64_t{jobs} << 24, std::memory_order_seq_cst);
    if (sleepers_.load(std::memory_order_seq_cst)) {
      signal_.fetch_add(1);
      wake();
    }
    take(0);
    for (int i = 0; done_.load(std::memory_order_acquire) != jobs; ++i) {
      if (i < kSpins)
        _mm_pause();
      else
        sched_yield();
    }
  }

 private:
  static constexpr int kSpins = 2'000;  // about 60 us
  static bool open(uint64_t word) { return (word & 0xffffff) < (word >> 24 & 0xffffff); }

  void take(int lane) {
    while (open(word_.load(std::memory_order_relaxed))) {
      const uint64_t word = word_.fetch_add(1, std::memory_order_acq_rel);
      if (!open(word)) break;
      call_(context_, static_cast<uint32_t>(word & 0xffffff), lane);
      done_.fetch_add(1, std::memory_order_release);
    }
  }
  void help(int lane) {
    while (!stop_.load()) {
      for (int i = 0; i < kSpins; ++i) {
        if (open(word_.load(std::memory_order_relaxed))) {
          take(lane);
          i = 0;
        }
        _mm_pause();
      }
      const uint32_t seen = signal_.load();
      sleepers_.fetch_add(1);
      if (!open(word_.load()) && !stop_.load())
        syscall(SYS_futex, &signal_, FUTEX_WAIT_PRIVATE, seen, nullptr, nullptr, 0);
      sleepers_.fetch_sub(1);
    }
  }
  void wake() { syscall(SYS_futex, &signal_, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0); }

  void (*call_)(void*, uint32_t, int) = nullptr;
  void* context_ = nullptr;
  uint64_t epoch_ = 0;
  alignas(64) std::atomic<uint64_t> word_{0};  // epoch: 16 bits, jobs: 24, next job: 24
  alignas(64) std::atomic<uint32_t> done_{0};
  alignas(64) std::atomic<uint32_t> signal_{0};
  std::atomic<int> sleepers_{0};
  std::atomic<bool> stop_{false};
  std::vector<std::thread> helpers_;
};

}  // namespace onednn_loops
