// OpActor: the actor that is one node of a partition. It has a handle like any CAF actor: it can be
// sent to from any process, monitored and killed. Its executor owns it and makes it anew when it
// dies; a killed op actor loses code, never inputs.
//
// Inside a program values do not pass through this door: the firing loop reads the compiled node
// (step.cpp). The door serves remote senders and Sends of other executors, which deliver to
// receiving op actors; it only stores and schedules.
//
// Owner: the executor. Thread: any.
#pragma once

#include <memory>

#include <caf/all.hpp>

namespace troupe {

class PartitionExecutor;

class OpActor final : public caf::monitorable_actor {
 public:
  OpActor(caf::actor_config& config, std::weak_ptr<PartitionExecutor> executor, uint32_t node,
          std::string label)
      : monitorable_actor(config),
        executor_(std::move(executor)),
        node_(node),
        label_(std::move(label)) {}

  void enqueue(caf::mailbox_element_ptr message, caf::execution_unit* unit) override;
  const char* name() const override { return label_.c_str(); }
  // The executor ends; whoever monitors this actor hears of it.
  void retire();

 private:
  const std::weak_ptr<PartitionExecutor> executor_;
  const uint32_t node_;
  const std::string label_;
};

// `id` 0 draws a new actor id; a restarted op keeps its id, so that handles in other processes stay
// good.
caf::strong_actor_ptr make_op_actor(caf::actor_system& system, caf::actor_id id,
                                    std::weak_ptr<PartitionExecutor> executor, uint32_t node,
                                    std::string label);

}  // namespace troupe
