// Branches and merges of a step.
#include "actors/engine/control_flow.hpp"

namespace troupe {

void choose(StepState& state, uint32_t i) {
  thread_local Tensor taken = Tensor::scalar(false);
  const FiringNode& node = state.node(i);
  StepContext& context = state.context;
  const NodeView& code = *node.view();
  context.call.bind(code, state.values.data(), state.program.inputs_of(node), node.n_in, &taken,
                    context.memory(), context.info, /*may_reuse_input0=*/false);
  code.fire(context.call);
  const bool alive = *taken.data<bool>();
  if (!alive) state.missing[i] |= kDeadBit;
  if (alive && state.program.nodes.roles[i] != kNone) state.loops->release_variables(state);
  state.settle_apart(i, !alive);
}

// A dead node has left its slots empty.
void merge(StepState& state, uint32_t i) {
  const FiringNode& node = state.node(i);
  const uint32_t* in = state.program.inputs_of(node);
  for (uint32_t p = 0; p < node.n_in; ++p) {
    if (!state.values[in[p]].defined()) continue;
    state.values[node.out] = state.values[in[p]];
    return state.settle_apart(i, false);
  }
  state.settle_apart(i, true);
}

}  // namespace troupe
