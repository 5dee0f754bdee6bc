// Requests to the agents of other processes: asked by one actor of ours, answered by a call on its
// thread. Who asks needs no actor of its own, and the request machinery is compiled once.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include <caf/actor.hpp>

#include "actors/messages.hpp"

namespace troupe {

// The one who asks: serves RemoteRequest. Its owner ends it.
caf::actor spawn_asker(caf::actor_system& system);

// Asks `whom` through `asker`. `then` is called once, on the asker's thread, at the latest after
// `timeout`; never, if the asker has ended.
// Instantiated in ask.cpp for the requests that masters make.
template <class Answer, class Message>
void ask(const caf::actor& asker, const caf::actor& whom, std::chrono::milliseconds timeout,
         Message message, std::function<void(Errc, const std::string&, const Answer&)> then);

}  // namespace troupe
