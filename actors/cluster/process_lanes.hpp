// ProcessLanes: the lanes of a process as kernels see them: how many threads there are, the helpers
// that join a running op, and the cores on which they compute. A thread that runs an op is a lane,
// too, so an op has one helper fewer than there are lanes.
// Owner: Process. Thread: any; begin() once, before the first kernel.
#pragma once

#include <atomic>
#include <memory>

#include <caf/all.hpp>

#include "actors/observe/trace.hpp"

namespace troupe {

class Cores;
class Lanes;

class ProcessLanes {
 public:
  explicit ProcessLanes(int threads);  // 0: one per core
  // The helpers come from the threads of `system`; without `helpers` there are none.
  void begin(caf::actor_system& system, const std::shared_ptr<Tracer>& tracer, bool helpers);
  int count() const { return count_; }
  Lanes& op_lanes() const { return *op_lanes_; }
  // How many actors with messages wait for a lane; null: the caller's actor system.
  const std::atomic<int64_t>* actors_waiting() const { return actors_waiting_; }
  Cores* cores() const { return cores_.get(); }  // null: one lane, or the caller's actor system

 private:
  const int count_;
  const std::atomic<int64_t>* actors_waiting_ = nullptr;  // the scheduler's
  std::shared_ptr<Cores> cores_;
  std::shared_ptr<Lanes> op_lanes_;
};

}  // namespace troupe
