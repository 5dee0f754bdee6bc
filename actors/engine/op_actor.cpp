// OpActor: its door, and its code while it lives.
#include "actors/engine/op_actor.hpp"

#include "actors/engine/executor.hpp"
#include "devices/failure.hpp"

namespace troupe {

void OpActor::enqueue(caf::mailbox_element_ptr message, caf::execution_unit* unit) {
  auto& content = message->content();
  if (content.match_elements<Deliver>()) {
    if (auto executor = executor_.lock())
      executor->deliver(std::move(content.get_mutable_as<Deliver>(0)));
    return;
  }
  if (content.match_elements<caf::exit_msg>())
    return killed(content.get_as<caf::exit_msg>(0).reason, unit);
  caf::message answer;
  if (content.match_elements<BecomeOp>())
    answer = become(content.get_as<BecomeOp>(0));
  else if (content.match_elements<DescribeOp>())
    answer = describe();
  else {
    if (!handle_system_message(*message, unit, false))
      bounce(message, make_error(caf::sec::unexpected_message));
    return;
  }
  if (message->sender && message->mid.is_request())
    message->sender->enqueue(ctrl(), message->mid.response_id(), std::move(answer), unit);
}

caf::message OpActor::become(const BecomeOp& message) {
  std::lock_guard lock(mutex_);
  const Failure failure = failure_of([&] {
    const auto executor = executor_.lock();
    if (!executor) throw Error(Errc::stale, label_, " belongs to an executor that has ended");
    if (!code_)
      throw Error(Errc::stale, label_, " has no code now: it has no kernel, or it was killed");
    code_ = executor->fire_from_now_on(
        node_, code_, executor->code_with(code_->view, message.node, message.op, message.here));
  });
  if (failure.code != Errc::ok) return caf::make_message(to_caf(failure.code, failure.text));
  return caf::make_message(Became{1});
}

caf::message OpActor::describe() {
  OpDescription out{.node = label_};
  std::lock_guard lock(mutex_);
  if (const auto executor = executor_.lock()) {
    out.device = executor->device();
    out.cost_ns = executor->cost_of(node_);
  }
  if (code_) {
    out.op = code_->view.node->op->name;
    out.dtype = detail::concat(dispatch_dtype(*code_->view.node));
  }
  return caf::make_message(std::move(out));
}

void OpActor::killed(const caf::error& reason, caf::execution_unit* unit) {
  if (!reason) return;
  const std::string text = home_system().render(reason);
  if (!cleanup(caf::error(reason), unit)) return;  // an old handle: another actor has its place
  OpCodePtr lost;
  {
    std::lock_guard lock(mutex_);
    lost = std::move(code_);
  }
  if (auto executor = executor_.lock()) executor->restart_op(node_, std::move(lost), text);
}

std::set<std::string> OpActor::message_types() const {
  return home_system().message_types(OpHandle{});
}

void OpActor::retire() { cleanup(caf::error{}, nullptr); }

caf::strong_actor_ptr make_op_actor(caf::actor_system& system, caf::actor_id id,
                                    std::weak_ptr<PartitionExecutor> executor, uint32_t node,
                                    std::string label, OpCodePtr code) {
  caf::actor_config config;
  return caf::make_actor<OpActor, caf::strong_actor_ptr>(
      id ? id : system.next_actor_id(), system.node(), &system, config, std::move(executor), node,
      std::move(label), std::move(code));
}

}  // namespace troupe
