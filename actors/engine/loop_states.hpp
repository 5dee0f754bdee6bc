// LoopStates: the loops of a step. The nodes of a loop stand in a row, and so do their values. An
// iteration arms them anew, by copies of two arrays, and ends when its turn fires, the node that
// waits for all others. One iteration at a time is under way on a device; a device that waits for
// nothing may be a bounded number of iterations ahead of the devices that follow it.
//
// Owner: the step. Thread: the step's owner thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "actors/engine/inbox.hpp"
#include "actors/engine/pending.hpp"
#include "actors/engine/step_result.hpp"
#include "actors/engine/step_state.hpp"

namespace troupe {

class LoopStates {
 public:
  LoopStates(StepState& state, Pending& pending);
  void arm();
  // The step has ended: values that no Restore has taken go, and if it failed all others, too.
  void clear(bool failed);

  // The driver of a loop fires: its first iteration begins.
  void begin(uint32_t driver);
  // The turn of a loop fires.
  enum class Turn {
    waits,      // for devices that follow
    iteration,  // the next one is armed
    ended,      // the driver has settled
    counts,     // the loop has ended; the number of its iterations has to go to the device
  };
  Turn turn(uint32_t i);
  // Loops are named by their number in the program. A turn that `counts`: the driver's outputs, the
  // number of iterations, and, when its copy is on its way, the end of the variables.
  std::vector<Tensor> outputs(size_t loop) const;
  Tensor count(size_t loop) const;
  void drop_variables(size_t loop);
  // The loop goes on, so it does not need the variables for its end: the body may write over them.
  void release_variables(size_t loop);

  // Something came over an edge of a loop. True: it waits for an iteration that is not armed yet,
  // or counts as an acknowledgement, or repeats what came before. `failure`: the step has to stop.
  bool takes(size_t edge, Arrival& arrival, StepResult& failure);
  // A value for the iteration that has just been armed.
  std::optional<Arrival> take_early(size_t edge);
  int64_t iteration(size_t loop) const { return loops_[loop].iteration; }

  void save(uint32_t i);
  void restore(uint32_t i);

  void abandon();  // the step ends early
  std::string under_way() const;

 private:
  // Iterations are counted over the whole step, so that those of a loop inside another one have
  // numbers of their own.
  struct State {
    int64_t iteration = -1;  // under way, or the last one
    int64_t first = 0;       // of the time that the loop runs now
    bool running = false;
    bool held = false;          // its turn waits for the devices that follow
    bool observed = false;      // nodes around the loop are timed; its iterations decide anew
    std::vector<int64_t> acks;  // how many iterations each of the devices that follow has ended
  };
  const Program::Loop& loop_of(size_t loop) const { return state_.program.loops[loop]; }
  void arm_iteration(size_t loop);
  void next_iteration(size_t loop);
  void check_next(const Program::Loop& loop) const;
  Turn end(size_t loop);
  void acknowledged(size_t loop, uint32_t node, int64_t iteration);
  bool must_wait(size_t loop, bool again) const;

  StepState& state_;
  Pending& pending_;
  std::vector<State> loops_;                // by Program::loops
  std::vector<std::vector<Tensor>> saved_;  // by save: values by iteration
  std::vector<Tensor> next_values_;         // of variables, on their way to the next iteration
  std::map<std::pair<size_t, int64_t>, Arrival> early_;  // by edge and iteration
};

}  // namespace troupe
