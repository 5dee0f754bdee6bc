// The asking actor.
#include "actors/async/ask.hpp"

#include "actors/async/guard.hpp"

namespace troupe {

Asker spawn_asker(caf::actor_system& system) {
  return system.spawn([](Asker::stateful_pointer<Requests> self) -> Asker::behavior_type {
    self->set_exception_handler(to_error);
    self->state.attach(self);
    return {[self](const WithRequests& request) { request.work(self->state); }};
  });
}

}  // namespace troupe
