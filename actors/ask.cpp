// Implements actors/ask.hpp.
#include "actors/ask.hpp"

#include "actors/guard.hpp"

namespace troupe {

caf::actor spawn_asker(caf::actor_system& system) {
  return system.spawn([](caf::event_based_actor* self) -> caf::behavior {
    self->set_exception_handler(to_error);
    return {[self](const RemoteRequest& request) { request.go(self); }};
  });
}

template <class Answer, class Message>
void ask(const caf::actor& asker, const caf::actor& whom, std::chrono::milliseconds timeout,
         Message message, std::function<void(Errc, const std::string&, const Answer&)> then) {
  caf::anon_send(asker, RemoteRequest{[whom, timeout, message = std::move(message),
                                       then = std::move(then)](caf::event_based_actor* self) {
                   const auto failed = [then](const caf::error& error) {
                     const auto [code, text] = from_caf(error);
                     then(code, text, Answer{});
                   };
                   auto asked = self->request(whom, timeout, message);
                   if constexpr (std::is_same_v<Answer, caf::unit_t>)
                     asked.then([then] { then(Errc::ok, {}, Answer{}); }, failed);
                   else
                     asked.then([then](const Answer& answer) { then(Errc::ok, {}, answer); },
                                failed);
                 }});
}

template <class Answer>
using Then = std::function<void(Errc, const std::string&, const Answer&)>;
using Millis = std::chrono::milliseconds;
template void ask(const caf::actor&, const caf::actor&, Millis, Describe, Then<Description>);
template void ask(const caf::actor&, const caf::actor&, Millis, InstallGraph, Then<caf::unit_t>);
template void ask(const caf::actor&, const caf::actor&, Millis, InstallParts, Then<PartsInstalled>);
template void ask(const caf::actor&, const caf::actor&, Millis, ConnectParts, Then<caf::unit_t>);
template void ask(const caf::actor&, const caf::actor&, Millis, Uninstall, Then<EdgeCounts>);

}  // namespace troupe
