// ShardTurn: whose turn it is to work with a shard: its actor's (training/shards/shard_actor.cpp)
// or that of a caller (training/shards/shard_here.hpp).
#pragma once

#include <atomic>

namespace troupe {

// A mutex that its actor waits for, and callers only try. The thread that has it may try, too.
// While the actor waits no caller gets it, so that a loop of calls does not keep the actor out.
class ShardTurn {
 public:
  bool try_lock() { return !waited_for() && take(); }
  // The actor's; one thread at a time.
  void lock() {
    if (take()) return;
    waited_for_.store(true, std::memory_order_relaxed);
    while (!take()) taken_.wait(true, std::memory_order_relaxed);
    waited_for_.store(false, std::memory_order_release);
  }
  void unlock() {
    taken_.store(false, std::memory_order_release);
    taken_.notify_one();
  }
  bool waited_for() const { return waited_for_.load(std::memory_order_acquire); }

 private:
  bool take() { return !taken_.exchange(true, std::memory_order_acquire); }

  std::atomic<bool> taken_{false}, waited_for_{false};
};

}  // namespace troupe
