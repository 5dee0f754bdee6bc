// The asking actor, and the requests that masters make, instantiated.
#include "actors/async/ask.hpp"

#include "actors/async/guard.hpp"
#include "actors/async/requests.hpp"

namespace troupe {

struct WithRequests {
  std::function<void(Requests&)> work;
};

}  // namespace troupe

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::WithRequests)

namespace troupe {

caf::actor spawn_asker(caf::actor_system& system) {
  return system.spawn([](caf::stateful_actor<Requests>* self) -> caf::behavior {
    self->set_exception_handler(to_error);
    self->state.attach(self);
    return {[self](const RemoteRequest& request) { request.go(self); },
            [self](const WithRequests& request) { request.work(self->state); }};
  });
}

void with_requests(const caf::actor& asker, std::function<void(Requests&)> work) {
  caf::anon_send(asker, WithRequests{std::move(work)});
}

template <class Answer, class Message>
void ask(const caf::actor& asker, const caf::actor& whom, std::chrono::milliseconds timeout,
         Message message, std::function<void(Errc, const std::string&, const Answer&)> then) {
  with_requests(asker,
                [whom, timeout, message = std::move(message), then = std::move(then)](
                    Requests& requests) { requests.ask<Answer>(whom, timeout, message, then); });
}

template <class Answer>
using Then = Requests::Then<Answer>;
using Millis = std::chrono::milliseconds;
template void ask(const caf::actor&, const caf::actor&, Millis, Describe, Then<Description>);
template void ask(const caf::actor&, const caf::actor&, Millis, InstallGraph, Then<caf::unit_t>);
template void ask(const caf::actor&, const caf::actor&, Millis, InstallParts, Then<PartsInstalled>);
template void ask(const caf::actor&, const caf::actor&, Millis, ConnectParts, Then<caf::unit_t>);
template void ask(const caf::actor&, const caf::actor&, Millis, Uninstall, Then<EdgeCounts>);
template void ask(const caf::actor&, const caf::actor&, Millis, Become, Then<Became>);

}  // namespace troupe
