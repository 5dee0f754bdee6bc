// Cores: the threads of a process that compute now, and the core of each. A process of N threads
// has N lanes, and the callers of its steps compute, too: an idle lane begins no costly kernel
// while N threads, callers and lanes together, have work. If no lane has work, one may begin; and
// no kernel waits long for a lane (actors/cluster/lane_scheduler.hpp).
//
// If other processes compute as well, the scheduler of the machine may leave several of these
// threads on one core for many milliseconds, and a thread without a core may have work that the
// others wait for. So a lane that begins a kernel moves away from the core of another thread
// (move_apart()), and a waiting thread brings a thread that gets no time to its own core (Watch).
// The set of cores that a thread may use is unchanged afterwards, unless the program changes it at
// the same moment. While each thread has a core for itself, neither does anything.
//
// Owner: the process; lanes and callers enter. Thread: any.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <utility>

#include "devices/threads/thread_index.hpp"

namespace troupe {

class Cores {
 public:
  Cores() = default;
  Cores(const Cores&) = delete;
  Cores& operator=(const Cores&) = delete;

  // The calling thread is a lane with work, until lane_leaves().
  void lane_enters();
  void lane_leaves();
  // True if one more of `all` lanes may begin a costly kernel: fewer than `all` threads compute, or
  // no lane has work.
  bool lane_may_compute(int all) const {
    const int lanes = lanes_.load(std::memory_order_relaxed);
    return lanes == 0 || lanes + callers_.load(std::memory_order_relaxed) < all;
  }
  // The same for a lane that has work and could take more: it does not count itself.
  bool lane_may_go_on(int all) const {
    const int others = lanes_.load(std::memory_order_relaxed) - 1;
    return others <= 0 || others + callers_.load(std::memory_order_relaxed) < all;
  }
  // Called when a caller has left, on its thread: a lane that waits for that checks again.
  void on_caller_leaves(std::function<void()> wake) { wake_ = std::move(wake); }

  // A thread that fires a step itself, from take() until this object ends. Not for lanes.
  class Caller {
   public:
    Caller() = default;
    Caller(const Caller&) = delete;
    Caller& operator=(const Caller&) = delete;
    void take(Cores& cores);  // a second call does nothing
    ~Caller();

   private:
    Cores* cores_ = nullptr;
  };

  // Moves the calling thread, which has entered, to a core that it may use and on which no other
  // thread computes, if another one computes on its core. Returns its core afterwards.
  int move_apart();

  // For a thread that waits for others: it makes a Watch, spins for 20 us or more, and calls
  // bring().
  class Watch {
   public:
    explicit Watch(const Cores& cores);
    // Moves one thread that computes but has had no CPU time since then to the core of the calling
    // thread. False: there is none.
    bool bring() const;

   private:
    struct Seen {
      int slot = -1;
      int thread = 0;
      int64_t ns = 0;  // its CPU time
    };
    const Cores& cores_;
    std::array<Seen, 8> seen_;  // further threads are ignored
    size_t count_ = 0;
  };
  static constexpr int kWatchSpins = 700;  // about 20 us

 private:
  struct alignas(kCacheLine) Place {
    std::atomic<int> thread{0};  // its number in the kernel; 0: the place is free
    std::atomic<int> core{-1};
  };
  bool enter();
  void leave();

  std::function<void()> wake_;
  alignas(kCacheLine) std::atomic<int> lanes_{0};
  std::atomic<int> callers_{0};
  std::array<Place, kThreadIndices> places_;  // by thread_index()
  std::atomic<int> places_end_{0};            // no place from here on has been used
};

}  // namespace troupe
