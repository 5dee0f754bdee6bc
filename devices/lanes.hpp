// Lanes: several threads inside one op. An op is cut into jobs whose size comes from its shapes
// alone; threads take jobs as they come, so who does what is open and the result is not.
//
// It has no threads: those that are idle are asked to help. Any number of threads may call run(),
// and a job may, too. One caller at a time has the helpers; the others, and callers of a Lanes
// without helpers, do their jobs themselves.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>

namespace troupe {

class Lanes {
 public:
  static constexpr int64_t kJobsMax =
      1 << 23;  // of one run; half of what the word counts, the rest is for late helpers
  using Job = void (*)(const void* context, int64_t job);

  // `ask(n)` makes n other threads call help() soon, once each, and does not wait for them; n is at
  // most `helpers`, those included that were asked and have not come yet. Without helpers it may be
  // empty.
  explicit Lanes(int helpers = 0, std::function<void(int)> ask = {})
      : helpers_(helpers), ask_(std::move(ask)) {}
  Lanes(const Lanes&) = delete;
  Lanes& operator=(const Lanes&) = delete;

  // Calls job(context, i) for every i in [0, jobs), on any thread and in any order, and returns
  // when all are done. Throws: what the lowest job that failed has thrown. Requires: jobs <=
  // kJobsMax.
  void run(int64_t jobs, Job job, const void* context);

  // On a thread that was asked: does jobs of the run under way, if there is one.
  void help();

 private:
  void take();

  const int helpers_;
  const std::function<void(int)> ask_;

  // Written by the caller that holds busy_, before it opens the word.
  Job job_ = nullptr;
  const void* context_ = nullptr;
  uint64_t epoch_ = 0;

  alignas(64) std::atomic<bool> busy_{false};
  alignas(64) std::atomic<uint64_t> word_{0};  // epoch: 16 bits, jobs: 24, next job: 24
  alignas(64) std::atomic<int64_t> done_{0};
  alignas(64) std::atomic<int> asked_{0};  // helpers that have not come yet

  std::mutex error_mutex_;  // guards the next two
  int64_t error_job_ = 0;
  std::exception_ptr error_;
};

}  // namespace troupe
