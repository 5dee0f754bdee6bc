// The monitors of Requests: one per actor that was asked.
#include "actors/async/requests.hpp"

namespace troupe {

void Requests::attach(caf::scheduled_actor* self) {
  self_ = self;
  self->set_down_handler([this](const caf::down_msg& m) { lost(m.source, m.reason); });
}

// One monitor serves all requests to an actor, as CAF removes all of them at once. The monitor of
// an actor that has ended fires at once.
uint64_t Requests::open(const caf::actor& whom, Fail fail) {
  auto& theirs = open_[whom.address()];
  if (theirs.empty() && whom) self_->monitor(whom);
  theirs[next_] = std::move(fail);
  return next_++;
}

bool Requests::close(const caf::actor& whom, uint64_t number) {
  const auto found = open_.find(whom.address());
  if (found == open_.end() || !found->second.erase(number)) return false;
  if (!found->second.empty()) return true;
  if (whom) self_->demonitor(whom);
  open_.erase(found);
  return true;
}

void Requests::lost(const caf::actor_addr& whom, const caf::error& reason) {
  const auto theirs = open_.extract(whom);
  if (!theirs) return;
  const caf::error why = to_caf(Errc::peer_lost, from_caf(reason).second);
  for (const auto& [number, fail] : theirs.mapped()) fail(why);
}

}  // namespace troupe
