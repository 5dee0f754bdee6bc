// Implements devices/lanes.hpp. One word holds how many jobs there are and which is next; taking a
// job is one addition.
#include "devices/lanes.hpp"

#include <sched.h>

#include <algorithm>

#include "troupe/error.hpp"

namespace troupe {
namespace {

constexpr uint64_t kCountMask = 0xffffff;
constexpr int kSpins = 2000;  // about 60 us: more than most jobs take

int64_t next_job(uint64_t word) { return static_cast<int64_t>(word & kCountMask); }
bool is_open(uint64_t word) { return (word & kCountMask) < (word >> 24 & kCountMask); }

}  // namespace

void Lanes::run(int64_t jobs, Job job, const void* context) {
  if (jobs > kJobsMax)
    throw InternalError("an op was cut into ", jobs, " jobs; ", kJobsMax, " is the most");
  if (helpers_ == 0 || jobs <= 1 || busy_.exchange(true, std::memory_order_acquire)) {
    for (int64_t i = 0; i < jobs; ++i) job(context, i);
    return;
  }
  job_ = job;
  context_ = context;
  done_.store(0, std::memory_order_relaxed);
  word_.store(++epoch_ << 48 | static_cast<uint64_t>(jobs) << 24, std::memory_order_seq_cst);
  const int wanted = static_cast<int>(std::min<int64_t>(helpers_, jobs - 1));
  if (const int more = wanted - asked_.load(std::memory_order_relaxed); more > 0) {
    asked_.fetch_add(more, std::memory_order_relaxed);
    ask_(more);
  }
  take();
  for (int i = 0; done_.load(std::memory_order_acquire) != jobs; ++i) {
    if (i < kSpins)
      __builtin_ia32_pause();
    else
      sched_yield();
  }
  std::exception_ptr error;
  {
    std::lock_guard guard(error_mutex_);
    std::swap(error, error_);
  }
  busy_.store(false, std::memory_order_release);
  if (error) std::rethrow_exception(error);
}

void Lanes::help() {
  asked_.fetch_sub(1, std::memory_order_relaxed);
  take();
}

void Lanes::take() {
  while (is_open(word_.load(std::memory_order_relaxed))) {
    // A late helper may land in the next run: fine, what to call is read after this.
    const uint64_t word = word_.fetch_add(1, std::memory_order_acq_rel);
    if (!is_open(word)) break;
    const int64_t job = next_job(word);
    try {
      job_(context_, job);
    } catch (...) {  // carried to the caller of run()
      std::lock_guard guard(error_mutex_);
      if (!error_ || job < error_job_) {
        error_ = std::current_exception();
        error_job_ = job;
      }
    }
    done_.fetch_add(1, std::memory_order_release);
  }
}

}  // namespace troupe
