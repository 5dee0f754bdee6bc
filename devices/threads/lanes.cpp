// The distribution of jobs. One word holds the number of jobs and the next job; taking a job is one
// addition.
#include "devices/threads/lanes.hpp"

#include <sched.h>

#include <algorithm>

#include "devices/threads/cores.hpp"
#include "troupe/error.hpp"

namespace troupe {
namespace {

constexpr uint64_t kCountMask = 0xffffff;
constexpr int kSpins = 2000;  // about 60 us: more than most jobs take

uint64_t epoch_of(uint64_t word) { return word >> 48; }
int64_t next_job(uint64_t word) { return static_cast<int64_t>(word & kCountMask); }
bool is_open(uint64_t word) { return (word & kCountMask) < (word >> 24 & kCountMask); }

}  // namespace

Lanes::Run* Lanes::claim() {
  for (Run& run : runs_)
    if (!run.busy.load(std::memory_order_relaxed) &&
        !run.busy.exchange(true, std::memory_order_acquire))
      return &run;
  return nullptr;
}

void Lanes::run(int64_t jobs, Job job, const void* context) {
  if (jobs > kJobsMax)
    throw InternalError("an op was cut into ", jobs, " jobs; ", kJobsMax, " is the most");
  Run* const run = helpers_ == 0 || jobs <= 1 ? nullptr : claim();
  if (!run) {
    for (int64_t i = 0; i < jobs; ++i) job(context, i);
    return;
  }
  run->job = job;
  run->context = context;
  run->done.store(0, std::memory_order_relaxed);
  run->word.store(++run->epoch << 48 | static_cast<uint64_t>(jobs) << 24,
                  std::memory_order_seq_cst);
  const int wanted = static_cast<int>(std::min<int64_t>(helpers_, jobs - 1));
  if (const int more = wanted - asked_.load(std::memory_order_relaxed); more > 0) {
    asked_.fetch_add(more, std::memory_order_relaxed);
    try {
      ask_(more);
    } catch (...) {  // threads that cannot be asked do not help
      asked_.fetch_sub(more, std::memory_order_relaxed);
    }
  }
  run->take();
  await(*run, jobs);
  std::exception_ptr error;
  {
    std::lock_guard guard(run->error_mutex);
    std::swap(error, run->error);
  }
  run->busy.store(false, std::memory_order_release);
  if (error) std::rethrow_exception(error);
}

// Waits until the jobs that other threads have taken are done.
void Lanes::await(const Run& run, int64_t jobs) const {
  const auto done_after = [&](int spins) {
    for (int i = 0; i < spins; ++i) {
      if (run.done.load(std::memory_order_acquire) == jobs) return true;
      __builtin_ia32_pause();
    }
    return run.done.load(std::memory_order_acquire) == jobs;
  };
  if (done_after(kSpins)) return;
  if (cores_) {
    const Cores::Watch watch(*cores_);
    if (done_after(Cores::kWatchSpins)) return;
    watch.bring();
  }
  while (run.done.load(std::memory_order_acquire) != jobs) sched_yield();
}

void Lanes::help() {
  asked_.fetch_sub(1, std::memory_order_relaxed);
  bool has_helped = false;
  for (bool did_one = true; did_one;) {
    did_one = false;
    for (Run& run : runs_) {
      // A thread that sees an open run also sees that its caller computes.
      if (!is_open(run.word.load(std::memory_order_acquire))) continue;
      if (has_helped && cores_ && !cores_->lane_may_go_on(helpers_ + 1)) return;
      if (run.take()) did_one = has_helped = true;
    }
  }
}

bool Lanes::Run::take() {
  bool did_one = false;
  uint64_t seen = word.load(std::memory_order_relaxed);
  for (const uint64_t mine = epoch_of(seen); is_open(seen) && epoch_of(seen) == mine;
       seen = word.load(std::memory_order_relaxed)) {
    // A late helper may land in the next run, which is fine: it reads the job function after this.
    const uint64_t taken = word.fetch_add(1, std::memory_order_acq_rel);
    if (!is_open(taken)) break;
    const int64_t number = next_job(taken);
    try {
      job(context, number);
    } catch (...) {  // rethrown by run()
      std::lock_guard guard(error_mutex);
      if (!error || number < error_job) {
        error = std::current_exception();
        error_job = number;
      }
    }
    done.fetch_add(1, std::memory_order_release);
    did_one = true;
  }
  return did_one;
}

}  // namespace troupe
