// Moves threads between cores, by the affinity and the CPU clocks of threads. A request that the
// kernel of the machine refuses has no effect.
#include "devices/threads/cores.hpp"

#include <sched.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <mutex>

namespace troupe {
namespace {

constexpr int64_t kNoProgressNs = 1'000;

int this_thread() {
  static thread_local const int number = gettid();
  return number;
}

// The CPU time of a thread of this process in nanoseconds; -1: there is no such thread. Builds the
// clock id as pthread_getcpuclockid() does, from a thread number that may be out of use.
int64_t cpu_ns(int thread) {
  constexpr clockid_t kOfOneThread = 4, kExact = 2;
  const auto clock =
      static_cast<clockid_t>(~static_cast<unsigned>(thread) << 3U) | kOfOneThread | kExact;
  timespec t{};
  if (clock_gettime(clock, &t) != 0) return -1;
  return int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}

std::mutex moving;  // guards the masks of threads during a temporary change

// Moves a thread of this process (0: this one) to one of the cores `to` that it may use; it may
// leave that core again. Does nothing while another thread is moved, since a temporary mask would
// be taken for the thread's own. Returns the core that the calling thread was on when the other had
// moved; -1: no move.
int move_to(int thread, cpu_set_t to) {
  const std::unique_lock lock(moving, std::try_to_lock);
  cpu_set_t before;
  if (!lock || sched_getaffinity(thread, sizeof before, &before) != 0) return -1;
  CPU_AND(&to, &to, &before);
  if (CPU_COUNT(&to) == 0 || sched_setaffinity(thread, sizeof to, &to) != 0) return -1;
  const int core = sched_getcpu();
  // Allows all cores again if the thread was allowed all: a mask that is set explicitly stays, even
  // when the process is given more cores later.
  cpu_set_t all, now;
  std::memset(&all, 0xff, sizeof all);
  if (sched_setaffinity(thread, sizeof all, &all) != 0 ||
      sched_getaffinity(thread, sizeof now, &now) != 0 || !CPU_EQUAL(&now, &before))
    sched_setaffinity(thread, sizeof before, &before);
  return core;
}

}  // namespace

bool Cores::enter() {
  const int slot = thread_index();
  Place& place = places_[static_cast<size_t>(slot)];
  int nobody = 0;
  if (!place.thread.compare_exchange_strong(nobody, this_thread(), std::memory_order_acq_rel))
    return false;
  place.core.store(sched_getcpu(), std::memory_order_relaxed);
  for (int end = places_end_.load(std::memory_order_relaxed);
       end <= slot && !places_end_.compare_exchange_weak(end, slot + 1);) {
  }
  return true;
}

void Cores::leave() {
  Place& place = places_[static_cast<size_t>(thread_index())];
  if (place.thread.load(std::memory_order_relaxed) == this_thread())
    place.thread.store(0, std::memory_order_release);
}

void Cores::lane_enters() {
  enter();
  lanes_.fetch_add(1, std::memory_order_relaxed);
}

void Cores::lane_leaves() {
  leave();
  lanes_.fetch_sub(1, std::memory_order_relaxed);
}

void Cores::Caller::take(Cores& cores) {
  if (cores_ || !cores.enter()) return;
  cores_ = &cores;
  cores.callers_.fetch_add(1, std::memory_order_relaxed);
}

Cores::Caller::~Caller() {
  if (!cores_) return;
  cores_->leave();
  cores_->callers_.fetch_sub(1, std::memory_order_relaxed);
  if (cores_->wake_) cores_->wake_();
}

int Cores::move_apart() {
  Place& mine = places_[static_cast<size_t>(thread_index())];
  int here = sched_getcpu();
  bool shared = false;
  cpu_set_t away;
  CPU_ZERO(&away);
  const int end = places_end_.load(std::memory_order_relaxed);
  for (int i = 0; i < end; ++i) {
    const Place& other = places_[static_cast<size_t>(i)];
    if (&other == &mine || other.thread.load(std::memory_order_acquire) == 0) continue;
    const int core = other.core.load(std::memory_order_relaxed);
    if (core < 0) continue;
    shared |= core == here;
    CPU_SET(static_cast<size_t>(core), &away);
  }
  if (shared) {
    cpu_set_t may;
    if (sched_getaffinity(0, sizeof may, &may) == 0) {
      CPU_XOR(&away, &away, &may);
      CPU_AND(&away, &away, &may);
      const int there = CPU_COUNT(&away) > 0 ? move_to(0, away) : -1;
      if (there >= 0) here = there;
    }
  }
  mine.core.store(here, std::memory_order_relaxed);
  return here;
}

Cores::Watch::Watch(const Cores& cores) : cores_(cores) {
  const int mine = thread_index();
  const int end = cores.places_end_.load(std::memory_order_relaxed);
  for (int i = 0; i < end && count_ < seen_.size(); ++i) {
    const int thread = cores.places_[static_cast<size_t>(i)].thread.load(std::memory_order_acquire);
    if (i == mine || thread == 0) continue;
    if (const int64_t ns = cpu_ns(thread); ns >= 0) seen_[count_++] = {i, thread, ns};
  }
}

bool Cores::Watch::bring() const {
  for (size_t i = 0; i < count_; ++i) {
    const auto [slot, thread, ns] = seen_[i];
    if (const int64_t now = cpu_ns(thread); now < 0 || now - ns > kNoProgressNs) continue;
    const Place& place = cores_.places_[static_cast<size_t>(slot)];
    if (place.thread.load(std::memory_order_acquire) != thread) continue;
    cpu_set_t here;
    CPU_ZERO(&here);
    CPU_SET(static_cast<size_t>(sched_getcpu()), &here);
    if (move_to(thread, here) >= 0) return true;
  }
  return false;
}

}  // namespace troupe
