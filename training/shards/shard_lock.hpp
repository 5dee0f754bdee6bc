// ShardLock: the lock of a shard, taken by its actor (training/shards/shard_actor.cpp) or by a
// caller in its process (training/parameters/local_shard.hpp).
// Owner: the shard's actor. Thread: any; lock() is the actor's alone.
#pragma once

#include <atomic>

namespace troupe {

// A mutex for which the actor waits and callers only try. The thread that holds it may try, too,
// and fails. While the actor waits no caller gets it, so that a loop of calls cannot starve the
// actor.
class ShardLock {
 public:
  bool try_lock() { return !waited_for() && take(); }
  // For the actor; one thread at a time.
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
