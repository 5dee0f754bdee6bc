// Requests to actors of other processes: an actor of this process sends them and calls back on its
// thread. The caller needs no actor of its own, and the request machinery is compiled once.
// Owner: the caller owns the asker. Thread: any; `work` and `then` run on the asker's.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include <caf/actor.hpp>

#include "actors/async/messages.hpp"

namespace troupe {

class Requests;

// The actor that sends requests: serves RemoteRequest. Its owner ends it.
caf::actor spawn_asker(caf::actor_system& system);
// Runs `work` on the asker's thread, with its requests (requests.hpp); does not run it if the asker
// has ended.
void with_requests(const caf::actor& asker, std::function<void(Requests&)> work);

// Sends a request to `whom` through `asker`. `then` is called once, on the asker's thread, with a
// result as in requests.hpp; never, if the asker has ended.
// Instantiated in ask.cpp for the requests that masters make.
template <class Answer, class Message>
void ask(const caf::actor& asker, const caf::actor& whom, std::chrono::milliseconds timeout,
         Message message, std::function<void(Errc, const std::string&, const Answer&)> then);

}  // namespace troupe
