// Implements devices/lanes.hpp. One word holds how many jobs there are and which is next; taking a
// job is one addition.
#include "devices/lanes.hpp"

#include <sched.h>

#include "troupe/error.hpp"

namespace troupe {
namespace {

constexpr uint64_t kCountMask = 0xffffff;
constexpr int kSpins =
    2000;  // about 60 us: longer than the gaps inside a step, shorter than those between steps

uint32_t next_job(uint64_t word) { return static_cast<uint32_t>(word & kCountMask); }
bool is_open(uint64_t word) { return next_job(word) < (word >> 24 & kCountMask); }

}  // namespace

Lanes::Lanes(int helpers) {
  for (int i = 0; i < helpers; ++i) helpers_.emplace_back([this] { serve(); });
}

Lanes::~Lanes() {
  stop_.store(true);
  signal_.fetch_add(1);
  signal_.notify_all();
  for (std::thread& helper : helpers_) helper.join();
}

void Lanes::run_with_helpers(uint32_t jobs) {
  if (jobs > kJobsMax) {
    busy_.store(false, std::memory_order_release);
    throw InternalError("an op was cut into ", jobs, " jobs; ", kJobsMax, " is the most");
  }
  done_.store(0, std::memory_order_relaxed);
  word_.store(++epoch_ << 48 | uint64_t{jobs} << 24, std::memory_order_seq_cst);
  if (sleepers_.load(std::memory_order_seq_cst)) {
    signal_.fetch_add(1);
    signal_.notify_all();
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

void Lanes::take() {
  while (is_open(word_.load(std::memory_order_relaxed))) {
    // A late helper may land in the next run: fine, what to call is read after this.
    const uint64_t word = word_.fetch_add(1, std::memory_order_acq_rel);
    if (!is_open(word)) break;
    const uint32_t job = next_job(word);
    try {
      call_(context_, job, thread_slot());
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

void Lanes::serve() {
  while (!stop_.load()) {
    for (int i = 0; i < kSpins; ++i) {
      if (is_open(word_.load(std::memory_order_relaxed))) {
        take();
        i = 0;
      }
      __builtin_ia32_pause();
    }
    const int seen = signal_.load();
    sleepers_.fetch_add(1);
    if (!is_open(word_.load()) && !stop_.load()) signal_.wait(seen);
    sleepers_.fetch_sub(1);
  }
}

}  // namespace troupe
