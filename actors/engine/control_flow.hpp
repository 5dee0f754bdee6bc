// Control flow inside a step: nodes that choose whether what follows is alive, and nodes that join
// branches. The loops are in actors/engine/loop_states.hpp, the calls in step_calls.hpp.
//
// Owner: the step. Thread: the step's owner thread.
#pragma once

#include "actors/engine/loop_states.hpp"
#include "actors/engine/step_state.hpp"

namespace troupe {

// The node's kernel says whether the nodes behind it are alive.
void choose(StepState& state, uint32_t i);

// The node takes the one input that is alive; without one it is dead.
void merge(StepState& state, uint32_t i);

}  // namespace troupe
