// Lanes: several threads inside one op. An op is cut into jobs whose size comes from its shapes
// alone; lanes take jobs as they come, so who does what is open and the result is not.
//
// Owned by the process; any number of threads may call run(), and a job may, too. One caller at a
// time has the helpers; the others, and callers of a Lanes without helpers, do their jobs
// themselves.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <type_traits>
#include <vector>

namespace troupe {

// A small number of the calling thread, for scratch memory that belongs to it: no two living
// threads share one.
inline int thread_slot() {
  static std::atomic<int> next{0};
  thread_local const int mine = next.fetch_add(1, std::memory_order_relaxed);
  return mine;
}

class Lanes {
 public:
  static constexpr uint32_t kJobsMax =
      1u << 23;  // of one run; half of what the word counts, the rest is for late helpers

  // The calling thread of run() is a lane, too: 0 helpers is a program without threads.
  explicit Lanes(int helpers);
  ~Lanes();
  Lanes(const Lanes&) = delete;
  Lanes& operator=(const Lanes&) = delete;
  int size() const { return static_cast<int>(helpers_.size()) + 1; }

  // Calls f(job, thread_slot()) for every job in [0, jobs), on any lane and in any order, and
  // returns when all are done. Throws: what the lowest job that failed has thrown. Requires: jobs
  // <= kJobsMax.
  template <class F>
  void run(uint32_t jobs, F&& f) {
    if (helpers_.empty() || jobs <= 1 || busy_.exchange(true, std::memory_order_acquire)) {
      for (uint32_t job = 0; job < jobs; ++job) f(job, thread_slot());
      return;
    }
    call_ = [](void* context, uint32_t job, int slot) {
      (*static_cast<std::remove_reference_t<F>*>(context))(job, slot);
    };
    context_ = const_cast<void*>(static_cast<const void*>(&f));
    run_with_helpers(jobs);
  }

 private:
  void run_with_helpers(uint32_t jobs);
  void take();
  void serve();

  // Written by the caller that holds busy_, before it opens the word.
  void (*call_)(void* context, uint32_t job, int slot) = nullptr;
  void* context_ = nullptr;
  uint64_t epoch_ = 0;

  alignas(64) std::atomic<bool> busy_{false};
  alignas(64) std::atomic<uint64_t> word_{0};  // epoch: 16 bits, jobs: 24, next job: 24
  alignas(64) std::atomic<uint32_t> done_{0};
  alignas(64) std::atomic<int> signal_{0};  // helpers sleep on it
  std::atomic<int> sleepers_{0};
  std::atomic<bool> stop_{false};

  std::mutex error_mutex_;  // guards the next two
  uint32_t error_job_ = 0;
  std::exception_ptr error_;

  std::vector<std::thread> helpers_;  // last: they use the others
};

}  // namespace troupe
