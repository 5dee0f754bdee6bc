// Implements actors/engine/op_actor.hpp.
#include "actors/engine/op_actor.hpp"

#include "actors/engine/stage.hpp"

namespace troupe {

void OpActor::enqueue(caf::mailbox_element_ptr message, caf::execution_unit* unit) {
  auto& content = message->content();
  if (content.match_elements<Deliver>()) {
    if (auto stage = stage_.lock()) stage->deliver(std::move(content.get_mutable_as<Deliver>(0)));
    return;
  }
  if (content.match_elements<caf::exit_msg>()) {
    const auto& exit = content.get_as<caf::exit_msg>(0);
    if (!exit.reason) return;
    const std::string reason = home_system().render(exit.reason);
    if (!cleanup(caf::error(exit.reason), unit))
      return;  // an old handle: somebody else has its place
    if (auto stage = stage_.lock()) stage->restart_op(firing_index_, reason);
    return;
  }
  if (!handle_system_message(*message, unit, false))
    bounce(message, make_error(caf::sec::unexpected_message));
}

void OpActor::retire() { cleanup(caf::error{}, nullptr); }

caf::strong_actor_ptr make_op_actor(caf::actor_system& system, caf::actor_id id,
                                    std::weak_ptr<Stage> stage, uint32_t firing_index,
                                    std::string label) {
  caf::actor_config config;
  return caf::make_actor<OpActor, caf::strong_actor_ptr>(
      id ? id : system.next_actor_id(), system.node(), &system, config, std::move(stage),
      firing_index, std::move(label));
}

}  // namespace troupe
