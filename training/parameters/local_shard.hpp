// LocalShard: a shard of the same process, called in place of sending it a message. A push or a
// pull runs on the caller's thread if the shard's actor is idle, which saves a thread's wake, a
// message and a mailbox.
// Owner: the shard's actor. Thread: any.
#pragma once

#include <cstdint>
#include <variant>
#include <vector>

#include <caf/all.hpp>

#include "training/parameters/messages.hpp"

namespace troupe {

// The door of a client, where the answers of shards come.
using ParameterDoor = caf::typed_actor<caf::reacts_to<Pulled>, caf::reacts_to<Acknowledged>>;
// A shard as its clients know it. Its answers go to the sender.
using ShardDoor = caf::typed_actor<caf::reacts_to<Push>, caf::reacts_to<Pull>>;

// An answer of a shard. `to`: the number under which the shard knows the client.
struct ShardAction {
  uint64_t to = 0;
  std::variant<Pulled, Acknowledged> message;
};
using ShardActions = std::vector<ShardAction>;

using ShardRequest = std::variant<Push, Pull>;

class LocalShard {
 public:
  // Handles the request of the client behind `door` as the shard's actor would. Answers to the
  // client go into `out`; others are sent. False: nothing has happened, and the caller sends the
  // unchanged request to the actor: it is busy or about to be, has died, does not know this door
  // yet, or the work is long, such as making the values of an earlier step. True with an empty
  // `out`: the answer comes later as a message; or, if the shard dies of an exception, none comes
  // and the client asks again until new routes or its deadline come. Requires: the caller holds no
  // lock that a receiver of an answer takes.
  virtual bool ask(ShardRequest& request, const caf::strong_actor_ptr& door, ShardActions& out) = 0;

 protected:
  ~LocalShard() = default;
};

}  // namespace troupe
