// OpActor: the actor that is one node of a partition. It owns the code of the node
// (actors/engine/program/op_code.hpp), and the firing loop fires the node from there. Any process
// can send to it, monitor it and kill it.
//
// Inside a program values do not pass through its door: the firing loop reads the compiled node,
// which points to the actor's code (step.cpp). The door takes
//   Deliver     a value of an edge from another executor; stored, and the step is scheduled,
//   BecomeOp    other code takes the place of the actor's own, while steps run,
//   DescribeOp  the code, and its measured cost,
// on the thread of the sender, so no message waits in a mailbox.
//
// Killed, it loses its code and no inputs: these are the steps'. The executor makes the actor and
// its code anew, and steps that run fire the new code.
//
// Owner: the executor. Thread: any.
#pragma once

#include <memory>
#include <mutex>
#include <set>
#include <string>

#include <caf/all.hpp>

#include "actors/async/messages.hpp"
#include "actors/engine/program/op_code.hpp"
#include "actors/async/step_messages.hpp"

namespace troupe {

class PartitionExecutor;

using OpHandle = caf::typed_actor<caf::reacts_to<Deliver>, caf::replies_to<BecomeOp>::with<Became>,
                                  caf::replies_to<DescribeOp>::with<OpDescription>>;

class OpActor final : public caf::monitorable_actor {
 public:
  // `code`: null for a node without a kernel.
  OpActor(caf::actor_config& config, std::weak_ptr<PartitionExecutor> executor, uint32_t node,
          std::string label, OpCodePtr code)
      : monitorable_actor(config),
        executor_(std::move(executor)),
        node_(node),
        label_(std::move(label)),
        code_(std::move(code)) {}

  void enqueue(caf::mailbox_element_ptr message, caf::execution_unit* unit) override;
  const char* name() const override { return label_.c_str(); }
  std::set<std::string> message_types() const override;
  // The executor ends; the actor's monitors hear of it.
  void retire();

 private:
  caf::message become(const BecomeOp& message);
  caf::message describe();
  void killed(const caf::error& reason, caf::execution_unit* unit);

  const std::weak_ptr<PartitionExecutor> executor_;
  const uint32_t node_;
  const std::string label_;
  std::mutex mutex_;  // guards the next
  OpCodePtr code_;
};

// `id` 0 draws a new actor id. An actor that is made anew keeps its id, so that handles in other
// processes stay good.
caf::strong_actor_ptr make_op_actor(caf::actor_system& system, caf::actor_id id,
                                    std::weak_ptr<PartitionExecutor> executor, uint32_t node,
                                    std::string label, OpCodePtr code);

}  // namespace troupe
