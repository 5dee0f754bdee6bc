// Requests to actors of other processes: an actor of this process sends them and calls back on its
// thread. The caller needs no actor of its own.
// Owner: the caller owns the asker. Thread: any; `work` and `then` run on the asker's.
#pragma once

#include <chrono>
#include <functional>
#include <utility>

#include <caf/all.hpp>

#include "actors/async/requests.hpp"

namespace troupe {

// Within one process: runs `work` on the actor's thread, with the actor's requests.
struct WithRequests {
  std::function<void(Requests&)> work;
};
using Asker = caf::typed_actor<caf::reacts_to<WithRequests>>;

Asker spawn_asker(caf::actor_system& system);  // its owner ends it

// Runs `work` on the asker's thread; does not run it if the asker has ended.
inline void with_requests(const Asker& asker, std::function<void(Requests&)> work) {
  caf::anon_send(asker, WithRequests{std::move(work)});
}

// Sends a request to `whom` through `asker`. `then` is called once, on the asker's thread, with a
// result as in requests.hpp; never, if the asker has ended.
template <class Answer, class Handle, class Message>
void ask(const Asker& asker, const Handle& whom, std::chrono::milliseconds timeout, Message message,
         Requests::Then<Answer> then) {
  with_requests(asker,
                [whom, timeout, message = std::move(message), then = std::move(then)](
                    Requests& requests) { requests.ask<Answer>(whom, timeout, message, then); });
}

}  // namespace troupe

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::WithRequests)
