// OpActor: its door takes values of edges, and the word that the actor was killed.
#include "actors/engine/op_actor.hpp"

#include "actors/engine/executor.hpp"

namespace troupe {

void OpActor::enqueue(caf::mailbox_element_ptr message, caf::execution_unit* unit) {
  auto& content = message->content();
  if (content.match_elements<Deliver>()) {
    if (auto executor = executor_.lock())
      executor->deliver(std::move(content.get_mutable_as<Deliver>(0)));
    return;
  }
  if (content.match_elements<caf::exit_msg>()) {
    const auto& exit = content.get_as<caf::exit_msg>(0);
    if (!exit.reason) return;
    const std::string reason = home_system().render(exit.reason);
    if (!cleanup(caf::error(exit.reason), unit))
      return;  // an old handle: somebody else has its place
    if (auto executor = executor_.lock()) executor->restart_op(node_, reason);
    return;
  }
  if (!handle_system_message(*message, unit, false))
    bounce(message, make_error(caf::sec::unexpected_message));
}

void OpActor::retire() { cleanup(caf::error{}, nullptr); }

caf::strong_actor_ptr make_op_actor(caf::actor_system& system, caf::actor_id id,
                                    std::weak_ptr<PartitionExecutor> executor, uint32_t node,
                                    std::string label) {
  caf::actor_config config;
  return caf::make_actor<OpActor, caf::strong_actor_ptr>(
      id ? id : system.next_actor_id(), system.node(), &system, config, std::move(executor), node,
      std::move(label));
}

}  // namespace troupe
