// OpActors: made, found, made anew and retired by node.
#include "actors/engine/op_actors.hpp"

#include "actors/engine/op_actor.hpp"

namespace troupe {

OpActors::~OpActors() {
  std::lock_guard lock(mutex_);
  for (auto& actor : actors_)
    if (actor) static_cast<OpActor*>(actor->get())->retire();
}

void OpActors::make(caf::actor_system& system, const std::weak_ptr<PartitionExecutor>& executor,
                    const std::vector<std::string>& names) {
  std::lock_guard lock(mutex_);
  for (uint32_t i = 0; i < names.size(); ++i)
    actors_.push_back(make_op_actor(system, 0, executor, i, names[i]));
}

caf::actor OpActors::at(uint32_t node) const {
  std::lock_guard lock(mutex_);
  return caf::actor_cast<caf::actor>(actors_.at(node));
}

bool OpActors::restart(uint32_t node, caf::actor_system& system,
                       const std::weak_ptr<PartitionExecutor>& executor, const std::string& name,
                       const std::function<void(const caf::strong_actor_ptr&)>& replaced) {
  std::lock_guard lock(mutex_);
  if (node >= actors_.size() || !actors_[node]) return false;
  actors_[node] = make_op_actor(system, actors_[node]->id(), executor, node, name);
  restarts_.fetch_add(1, std::memory_order_relaxed);
  if (replaced) replaced(actors_[node]);  // in the order in which the actors were made
  return true;
}

}  // namespace troupe
