// OpActors: the op actors of an executor's nodes. An actor that is killed is made anew under its
// old id, so that handles in other processes stay good.
//
// Owner: the executor. Thread: any.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <caf/all.hpp>

namespace troupe {

class PartitionExecutor;

class OpActors {
 public:
  OpActors() = default;
  ~OpActors();  // the monitors of op actors hear of their end

  void make(caf::actor_system& system, const std::weak_ptr<PartitionExecutor>& executor,
            const std::vector<std::string>& names);
  caf::actor at(uint32_t node) const;
  // `replaced` is called with the new actor. False: there is no such node.
  bool restart(uint32_t node, caf::actor_system& system,
               const std::weak_ptr<PartitionExecutor>& executor, const std::string& name,
               const std::function<void(const caf::strong_actor_ptr&)>& replaced);
  int64_t restarts() const { return restarts_.load(std::memory_order_relaxed); }

 private:
  std::atomic<int64_t> restarts_{0};
  mutable std::mutex mutex_;  // guards the next
  std::vector<caf::strong_actor_ptr> actors_;
};

}  // namespace troupe
