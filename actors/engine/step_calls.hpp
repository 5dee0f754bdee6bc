// StepCalls: the calls of functions that a step makes. A call is a child state of the body's
// program, and it begins when nothing else of the step is ready, newest first. A call inside a call
// has its state on the heap, and no thread's stack grows with the depth.
//
// Owner: the step. Thread: the step's owner thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "actors/engine/loop_states.hpp"
#include "actors/engine/pending.hpp"
#include "actors/engine/step_state.hpp"

namespace troupe {

class StepCalls {
 public:
  explicit StepCalls(Pending& pending) : pending_(pending) {}

  // A Call node fires. Returns why it may not: too many calls are inside each other.
  std::string open(Firing call);
  bool has_open() const { return !open_.empty(); }
  // The newest open call begins. Requires: has_open().
  StepState& begin(PartitionExecutor& root);
  Firing newest() const { return open_.back(); }
  // The last node of a call fires. Returns the function's results; the state is idle afterwards.
  std::vector<Tensor> end(StepState& body);
  // The step ends early: no call begins.
  void drop_open() { open_.clear(); }
  // The step has ended: calls that have not are gone.
  void clear();

 private:
  // Idle states of one body; more are not kept.
  static constexpr size_t kIdleMax = 1024;
  struct Call {
    Call(const Program& program, StepContext& context, PartitionExecutor& executor,
         Pending& pending)
        : state(program, context, &executor, &loops), loops(state, pending) {}
    StepState state;
    LoopStates loops;
  };

  Pending& pending_;
  std::vector<Firing> open_;                              // that have not begun
  std::vector<std::unique_ptr<Call>> live_;               // under way
  int64_t begun_ = 0;                                     // so far
  std::vector<std::vector<std::unique_ptr<Call>>> idle_;  // by body
};

// For error texts: "; in f, 3 calls deep"; empty outside of calls.
std::string calls_around(const StepState& state);

}  // namespace troupe
