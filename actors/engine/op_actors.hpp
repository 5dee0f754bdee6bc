// OpActors: the op actors of an executor's nodes. An actor that is killed is made anew under its
// old id, so that handles in other processes stay good; its code is prepared again.
//
// Code that another one has replaced is kept until the executor ends: a step may still fire it.
//
// Owner: the executor. Thread: any.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include <caf/all.hpp>

#include "actors/engine/op_actor.hpp"
#include "actors/engine/program/program.hpp"

namespace troupe {

class OpActors {
 public:
  // Requires of the program that it outlives this.
  explicit OpActors(Program& program) : program_(program) {}
  ~OpActors();  // the monitors of op actors hear of their end

  // The code of the program's nodes goes to the actors.
  void make(caf::actor_system& system, const std::weak_ptr<PartitionExecutor>& executor);
  OpHandle at(uint32_t node) const;
  // The node fires `next`, or equal code that it had before. Returns that code.
  OpCodePtr fire_from_now_on(uint32_t node, const OpCodePtr& former, OpCodePtr next);
  // `replaced` is called with the new actor.
  void restart(uint32_t node, const OpCodePtr& lost, caf::actor_system& system,
               const std::weak_ptr<PartitionExecutor>& executor,
               const std::function<void(const caf::strong_actor_ptr&)>& replaced);
  int64_t restarts() const { return restarts_.load(std::memory_order_relaxed); }

 private:
  Program& program_;
  std::atomic<int64_t> restarts_{0};
  mutable std::mutex mutex_;  // guards the rest
  std::vector<caf::strong_actor_ptr> actors_;
  std::map<uint32_t, std::vector<OpCodePtr>> kept_;  // by node: all code that it has ever fired
};

}  // namespace troupe
