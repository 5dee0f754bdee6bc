// ShardHere: what an actor around a Shard does for clients of its own process besides answering
// messages: takes a push or a pull as a call, on the thread that asks, if it does nothing else at
// the moment. That is no other thread's wake, no message and no mailbox. An actor does one thing at
// a time, so neither of the two sees the other's work half done.
#pragma once

#include <atomic>

#include <caf/all.hpp>

#include "training/row_push.hpp"
#include "training/shard.hpp"

namespace troupe {

class ShardHere {
 public:
  // What the actor would do with this message of the door `from`. Answers to `from` go into `out`;
  // others are sent. False: nothing has happened, and the message is as it was, to be sent to the
  // actor: it is at work, has died, or has not heard of this door yet.
  // Requires: no lock is held that whoever it answers takes.
  virtual bool push(RowPush& message, const caf::strong_actor_ptr& from, ShardActions& out) = 0;
  virtual bool pull(const Pull& message, const caf::strong_actor_ptr& from, ShardActions& out) = 0;

 protected:
  ~ShardHere() = default;
};

// Null if this is no actor of spawn_shard() in this process. It lives as long as the actor's
// handles.
ShardHere* shard_here(const caf::actor& actor);

// Whose turn it is to work with a shard: its actor's, or a caller's. A mutex that the thread that
// has it may try to lock, too.
class ShardTurn {
 public:
  bool try_lock() { return !taken_.exchange(true, std::memory_order_acquire); }
  void lock() {
    while (!try_lock()) taken_.wait(true, std::memory_order_relaxed);
  }
  void unlock() {
    taken_.store(false, std::memory_order_release);
    taken_.notify_one();
  }

 private:
  std::atomic<bool> taken_{false};
};

}  // namespace troupe
