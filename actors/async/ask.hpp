// Requests to the agents of other processes: asked by one actor of ours, answered by a call on its
// thread. Who asks needs no actor of its own, and the request machinery is compiled once.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include <caf/actor.hpp>

#include "actors/async/messages.hpp"

namespace troupe {

class Requests;

// The one who asks: serves RemoteRequest. Its owner ends it.
caf::actor spawn_asker(caf::actor_system& system);
// Does something on the asker's thread, with its requests (requests.hpp). Not done if it has ended.
void with_requests(const caf::actor& asker, std::function<void(Requests&)> work);

// Asks `whom` through `asker`. `then` is called once, on the asker's thread, and how a request ends
// is said in requests.hpp; never, if the asker has ended.
// Instantiated in ask.cpp for the requests that masters make.
template <class Answer, class Message>
void ask(const caf::actor& asker, const caf::actor& whom, std::chrono::milliseconds timeout,
         Message message, std::function<void(Errc, const std::string&, const Answer&)> then);

}  // namespace troupe
