// ShardHere: calls of an actor's Shard by clients of its own process, in place of messages. A push
// or a pull runs on the caller's thread if the actor is idle, which saves a thread's wake, a
// message and a mailbox. A ShardTurn keeps the actor and callers apart, so neither sees the other's
// work half done.
// Owner: the actor of spawn_shard(). Thread: any.
#pragma once

#include <caf/all.hpp>

#include "training/parameters/row_push.hpp"
#include "training/shards/shard.hpp"

namespace troupe {

class ShardHere {
 public:
  // Handles the message from door `from` as the actor would. Answers to `from` go into `out`;
  // others are sent. False: nothing has happened, and the caller sends the unchanged message to the
  // actor: it is busy or about to be, has died, does not know this door yet, or the work is long,
  // such as putting together the values of an earlier step. True with an empty `out`: the answer
  // comes later as a message; or, if the shard dies of an exception, none comes and the waiting
  // client gets Errc::peer_lost. Requires: the caller holds no lock that a receiver of an answer
  // takes.
  virtual bool push(RowPush& message, const caf::strong_actor_ptr& from, ShardActions& out) = 0;
  virtual bool pull(const Pull& message, const caf::strong_actor_ptr& from, ShardActions& out) = 0;

 protected:
  ~ShardHere() = default;
};

// Null unless `actor` is one of spawn_shard() in this process. Valid as long as the actor's
// handles.
ShardHere* shard_here(const caf::actor& actor);

}  // namespace troupe
