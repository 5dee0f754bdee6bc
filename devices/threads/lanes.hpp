// Lanes: several threads inside one op. An op is cut into jobs whose size comes from its shapes
// alone; threads take jobs as they come, so who does what is open and the result is not.
//
// It has no threads: those that are idle are asked to help. Any number of threads may call run(),
// and a job may, too. kCallersMax of them at a time share the helpers, who go from one that has no
// more jobs to the next; further callers, and those of a Lanes without helpers, do their jobs
// themselves. A caller whose last jobs were taken by a thread that gets no time brings one such
// thread to its own core.
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
      1 << 23;  // of one run; half of what the word counts, the rest is for late helpers
  static constexpr size_t kCallersMax = 8;
  using Job = void (*)(const void* context, int64_t job);

  // `ask(n)` makes n other threads call help() soon, once each, and does not wait for them; of one
  // caller n is at most `helpers`, those included that were asked and have not come yet. Without
  // helpers it may be empty. Those that help have entered `cores`; null: they are not watched.
  explicit Lanes(int helpers = 0, std::function<void(int)> ask = {},
                 std::shared_ptr<const Cores> cores = nullptr)
      : helpers_(helpers), ask_(std::move(ask)), cores_(std::move(cores)) {}
  Lanes(const Lanes&) = delete;
  Lanes& operator=(const Lanes&) = delete;

  // Calls job(context, i) for every i in [0, jobs), on any thread and in any order, and returns
  // when all are done. Throws: what the lowest job that failed has thrown. Requires: jobs <=
  // kJobsMax.
  void run(int64_t jobs, Job job, const void* context);

  // On a thread that was asked: does jobs of the runs under way, until none has any left.
  void help();

 private:
  // What one caller runs.
  struct Run {
    bool take();  // does jobs until there are no more; false: there was none

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
  Run* claim();  // a run that nobody has; nullptr if all are taken

  const int helpers_;
  const std::function<void(int)> ask_;
  const std::shared_ptr<const Cores> cores_;
  std::array<Run, kCallersMax> runs_;
  alignas(64) std::atomic<int> asked_{0};  // helpers that have not come yet
};

}  // namespace troupe
