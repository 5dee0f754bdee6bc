// Cores: which threads of a process compute now, and on which core each of them is. A process of N
// threads has N lanes, and the callers of its steps compute, too: an idle lane begins no costly
// kernel while N of them, callers and lanes together, have something to do. If no lane has, one
// may; and none leaves a kernel alone for long (actors/engine/lane_scheduler.hpp).
//
// Where other processes compute as well, the scheduler of the machine leaves several of these
// threads on one core for many milliseconds, and one that is off its core may have what the others
// wait for. So a lane that begins a kernel moves away from the core of another (move_apart()), and
// a thread that only waits brings one that gets no time to its own core (Watch). Which cores a
// thread may use is the same afterwards, unless the program changes that at the same moment. While
// each has a core for itself, neither does anything.
//
// Any thread. Owner: the process; lanes and callers enter.
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

  // The calling thread is a lane that has something to do, until it leaves.
  void lane_enters();
  void lane_leaves();
  // One more of `all` lanes may begin a costly kernel beside those that compute: there are fewer
  // than `all`, or no lane has anything to do.
  bool lane_may_compute(int all) const {
    const int lanes = lanes_.load(std::memory_order_relaxed);
    return lanes == 0 || lanes + callers_.load(std::memory_order_relaxed) < all;
  }
  // Called when a caller has left, by its thread: a lane that waits for that looks again.
  void on_caller_leaves(std::function<void()> wake) { wake_ = std::move(wake); }

  // A thread that fires a step itself, from take() until this ends. A lane is none.
  class Caller {
   public:
    Caller() = default;
    Caller(const Caller&) = delete;
    Caller& operator=(const Caller&) = delete;
    void take(Cores& cores);  // again: nothing
    ~Caller();

   private:
    Cores* cores_ = nullptr;
  };

  // Moves the calling thread, which has entered, to a core that it may use and where no other one
  // computes, if one does on its own. Returns the core it is on then.
  int move_apart();

  // Of a thread that waits for others: it makes one of these, spins for 20 us or more, and calls
  // bring().
  class Watch {
   public:
    explicit Watch(const Cores& cores);
    // Moves one thread that computes and got no time since then to the core of the calling thread.
    // False: there is none.
    bool bring() const;

   private:
    struct Seen {
      int slot = -1;
      int thread = 0;
      int64_t ns = 0;  // that it had computed
    };
    const Cores& cores_;
    std::array<Seen, 8> seen_;  // more are not looked at
    size_t count_ = 0;
  };
  static constexpr int kWatchSpins = 700;  // about 20 us

 private:
  struct alignas(kCacheLine) Place {
    std::atomic<int> thread{0};  // its number in the kernel; 0: nobody computes
    std::atomic<int> core{-1};
  };
  bool enter();
  void leave();

  std::function<void()> wake_;
  alignas(kCacheLine) std::atomic<int> lanes_{0};
  std::atomic<int> callers_{0};
  std::array<Place, kThreadIndices> places_;  // by thread_index()
  std::atomic<int> places_end_{0};            // none is taken from here on
};

}  // namespace troupe
