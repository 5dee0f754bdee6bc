// Counts the actors and the firing work of a process.
#include "actors/cluster/occupants.hpp"

namespace troupe {

void Occupants::add(const caf::actor& actor) {
  std::lock_guard lock(mutex_);
  std::erase_if(actors_, [](const caf::actor& a) {  // actors that have ended need no waiting
    return caf::actor_cast<caf::abstract_actor*>(a)->getf(caf::abstract_actor::is_terminated_flag);
  });
  actors_.push_back(actor);
}

size_t Occupants::actors() const {
  std::lock_guard lock(mutex_);
  return actors_.size();
}

std::vector<caf::actor> Occupants::end_actors() {
  std::vector<caf::actor> actors;
  {
    std::lock_guard lock(mutex_);
    actors.swap(actors_);
  }
  for (const caf::actor& actor : actors)
    caf::anon_send_exit(actor, caf::exit_reason::user_shutdown);
  return actors;
}

int64_t Occupants::await_firing(std::chrono::seconds patience) {
  std::unique_lock lock(mutex_);
  none_fires_.wait_for(lock, patience, [this] { return firing_ == 0; });
  return firing_;
}

Occupants::Firing::Firing(Occupants& all) : all_(all) {
  std::lock_guard lock(all_.mutex_);
  ++all_.firing_;
}

Occupants::Firing::~Firing() {
  std::lock_guard lock(all_.mutex_);
  if (--all_.firing_ == 0) all_.none_fires_.notify_all();
}

}  // namespace troupe
