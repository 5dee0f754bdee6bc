// OpActors: made, found, made anew and retired by node.
#include "actors/engine/op_actors.hpp"

#include <algorithm>
#include <utility>

#include "devices/failure.hpp"

namespace troupe {

OpActors::~OpActors() {
  std::lock_guard lock(mutex_);
  for (auto& actor : actors_)
    if (actor) static_cast<OpActor*>(actor->get())->retire();
}

void OpActors::make(caf::actor_system& system, const std::weak_ptr<PartitionExecutor>& executor) {
  std::lock_guard lock(mutex_);
  Program::Nodes& nodes = program_.nodes;
  std::vector<OpCodePtr> codes = std::exchange(nodes.codes, {});
  for (uint32_t i = 0; i < codes.size(); ++i)
    actors_.push_back(make_op_actor(system, 0, executor, i, nodes.names[i], std::move(codes[i])));
}

OpHandle OpActors::at(uint32_t node) const {
  std::lock_guard lock(mutex_);
  return caf::actor_cast<OpHandle>(actors_.at(node));
}

OpCodePtr OpActors::fire_from_now_on(uint32_t node, const OpCodePtr& former, OpCodePtr next) {
  std::lock_guard lock(mutex_);
  std::vector<OpCodePtr>& kept = kept_[node];
  if (kept.empty()) kept.push_back(former);
  // Kernels that take turns are kept once.
  const auto known = std::find_if(kept.begin(), kept.end(),
                                  [&](const OpCodePtr& code) { return same(*code, *next); });
  if (known == kept.end())
    kept.push_back(next);
  else
    next = *known;
  program_.nodes.firing[node].code.store(&next->view, std::memory_order_release);
  return next;
}

void OpActors::restart(uint32_t node, const OpCodePtr& lost, caf::actor_system& system,
                       const std::weak_ptr<PartitionExecutor>& executor,
                       const std::function<void(const caf::strong_actor_ptr&)>& replaced) {
  OpCodePtr code = lost;  // should its kernel refuse to be prepared again
  if (lost) failure_of([&] { code = prepared_again(*lost); });
  std::lock_guard lock(mutex_);
  if (lost) {
    std::vector<OpCodePtr>& kept = kept_[node];
    if (std::find(kept.begin(), kept.end(), lost) == kept.end()) kept.push_back(lost);
    kept.push_back(code);
    program_.nodes.firing[node].code.store(&code->view, std::memory_order_release);
  }
  actors_.at(node) =
      make_op_actor(system, actors_[node]->id(), executor, node, program_.nodes.names[node], code);
  restarts_.fetch_add(1, std::memory_order_relaxed);
  if (replaced) replaced(actors_[node]);  // in the order in which the actors were made
}

}  // namespace troupe
