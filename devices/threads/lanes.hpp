// Lanes: several threads inside one op. An op is cut into jobs whose size depends on its shapes
// alone; threads take jobs as they come, so the thread of a job is open and the result is not.
//
// It has no threads of its own: idle threads are asked to help. Any number of threads may call
// run(), and so may a job. Up to kCallersMax callers at a time share the helpers, which go from a
// caller without jobs to the next; further callers, and callers of a Lanes without helpers, do
// their jobs themselves. If the last jobs of a caller were taken by a thread that gets no CPU time,
// the caller brings one such thread to its own core.
// Owner: the process; stages refer to it. Thread: any.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>

namespace troupe {

class Cores;

class Lanes {
 public:
  static constexpr int64_t kJobsMax =
      1 << 23;  // of one run; half the range of the count, the rest is for late helpers
  static constexpr size_t kCallersMax = 8;
  using Job = void (*)(const void* context, int64_t job);

  // `ask(n)` makes n other threads call help() soon, once each, and does not wait for them. For one
  // caller n is at most `helpers`, including those asked that have not come yet. Without helpers it
  // may be empty. Helping threads have entered `cores`; null: they are not watched.
  explicit Lanes(int helpers = 0, std::function<void(int)> ask = {},
                 std::shared_ptr<const Cores> cores = nullptr)
      : helpers_(helpers), ask_(std::move(ask)), cores_(std::move(cores)) {}
  Lanes(const Lanes&) = delete;
  Lanes& operator=(const Lanes&) = delete;

  // Calls job(context, i) for every i in [0, jobs), on any thread and in any order, and returns
  // when all are done. Throws: the exception of the lowest job that failed. Requires: jobs <=
  // kJobsMax.
  void run(int64_t jobs, Job job, const void* context);

  // For a thread that was asked: does jobs of the runs under way, until none has any left. It goes
  // from one run to the next only if it would not be one thread too many of those that compute:
  // the next run has asked for helpers of its own.
  void help();

 private:
  // The jobs of one caller.
  struct Run {
    // Does jobs until there are no more, but none of the run after this one, unless that begins
    // between two instructions. False: there was none.
    bool take();

    // Written by the caller that holds `busy`, before it opens the word.
    Job job = nullptr;
    const void* context = nullptr;
    uint64_t epoch = 0;

    alignas(64) std::atomic<bool> busy{false};
    alignas(64) std::atomic<uint64_t> word{0};  // epoch: 16 bits, jobs: 24, next job: 24
    alignas(64) std::atomic<int64_t> done{0};

    std::mutex error_mutex;  // guards the next two
    int64_t error_job = 0;
    std::exception_ptr error;
  };
  void await(const Run& run, int64_t jobs) const;
  Run* claim();  // a free run; nullptr if all are taken

  const int helpers_;
  const std::function<void(int)> ask_;
  const std::shared_ptr<const Cores> cores_;
  std::array<Run, kCallersMax> runs_;
  alignas(64) std::atomic<int> asked_{0};  // helpers asked that have not come yet
};

}  // namespace troupe
