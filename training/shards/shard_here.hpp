// ShardHere: what an actor around a Shard does for clients of its own process besides answering
// messages: takes a push or a pull as a call, on the thread that asks, if it does nothing else at
// the moment. That is no other thread's wake, no message and no mailbox. An actor does one thing at
// a time, so neither of the two sees the other's work half done.
#pragma once

#include <caf/all.hpp>

#include "training/parameters/row_push.hpp"
#include "training/shards/shard.hpp"

namespace troupe {

class ShardHere {
 public:
  // What the actor would do with this message of the door `from`. Answers to `from` go into `out`;
  // others are sent. False: nothing has happened, and the message is as it was, to be sent to the
  // actor: it is at work, is to work, has died, has not heard of this door yet, or the work is
  // long, as the values of a step before may first have to be put together.
  // True with nothing in `out`: the answer comes later, as a message, as after a message; or none
  // comes, as the shard dies of what was thrown, and whoever waits hears Errc::peer_lost.
  // Requires: no lock is held that whoever it answers takes.
  virtual bool push(RowPush& message, const caf::strong_actor_ptr& from, ShardActions& out) = 0;
  virtual bool pull(const Pull& message, const caf::strong_actor_ptr& from, ShardActions& out) = 0;

 protected:
  ~ShardHere() = default;
};

// Null if this is no actor of spawn_shard() in this process. It lives as long as the actor's
// handles.
ShardHere* shard_here(const caf::actor& actor);

}  // namespace troupe
