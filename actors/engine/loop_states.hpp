// LoopStates: the loops of a partition in a step. A loop that runs has one child state, which its
// iterations arm one after the other, by copies of two arrays; an iteration ends when the last node
// of the body fires. A device that waits for nothing may be a bounded number of iterations ahead of
// the devices that follow it.
//
// Owner: the step, or a call. Thread: the step's owner thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
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
  // `around`: the state of the partition, with its executor.
  LoopStates(StepState& around, Pending& pending);
  void arm();
  // The step has ended: values that no Restore has taken go, and if it failed all others, too.
  void clear(bool failed);

  // The driver of a loop fires: the loop's first iteration is armed, in the state that it returns.
  StepState& begin(Firing driver);
  // The last node of an iteration fires.
  enum class Turn {
    waits,      // for devices that follow
    iteration,  // the next one is armed
    ended,      // there is none
  };
  Turn turn(StepState& body);
  // The loop has ended. Returns what the loop gives back to its surroundings: at home, its
  // variables and the number of its iterations.
  std::vector<Tensor> end(StepState& body);
  const Program::Loop& loop_of(const StepState& body) const { return loops_of()[number_of(body)]; }
  // The loop goes on, so it does not need the variables for its end: the body may write over them.
  void release_variables(StepState& body);

  // Something came over an edge of a loop. Returns the state of the iteration that it is for, or
  // null: it waits for an iteration that is not armed yet, or counts as an acknowledgement, or
  // repeats what came before. `failure`: the step has to stop. `go_on`: the state whose last
  // iteration may end now.
  StepState* state_for(size_t edge, Arrival& arrival, StepResult& failure, StepState*& go_on);
  // A value for the iteration that has just been armed.
  std::optional<Arrival> take_early(size_t edge);
  // Loops are named by their number in the partition.
  int64_t iteration(size_t loop) const { return loops_[loop].iteration; }

  void save(Firing node);
  void restore(Firing node);

  void abandon();  // the step ends early
  std::string under_way() const;

 private:
  // Iterations are counted over the whole step, so that those of a loop inside another one have
  // numbers of their own.
  struct State {
    std::unique_ptr<StepState> body;
    int64_t iteration = -1;  // under way, or the last one
    int64_t first = 0;       // of the time that the loop runs now
    bool running = false;
    bool held = false;          // its turn waits for the devices that follow
    std::vector<int64_t> acks;  // how many iterations each of the devices that follow has ended
  };
  const std::vector<Program::Loop>& loops_of() const { return around_.program.loops; }
  size_t number_of(const StepState& body) const;
  void arm_iteration(size_t loop);
  void next_iteration(size_t loop);
  void check_next(size_t loop) const;
  StepState* acknowledged(size_t loop, uint32_t node, int64_t iteration);
  bool must_wait(size_t loop, bool again) const;

  StepState& around_;
  Pending& pending_;
  std::vector<State> loops_;                // by Program::loops
  std::vector<std::vector<Tensor>> saved_;  // by save: values by iteration
  std::vector<Tensor> next_values_;         // of variables, on their way to the next iteration
  std::map<std::pair<size_t, int64_t>, Arrival> early_;  // by edge and iteration
};

}  // namespace troupe
