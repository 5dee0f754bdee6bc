// StepState: what happens once a run, and what the firing loop does not do itself.
#include "actors/engine/step_state.hpp"
#include "devices/run_context.hpp"

namespace troupe {

StepContext::StepContext(Memory& device_memory, bool on_host) : device_memory(device_memory) {
  if (auto* pool = dynamic_cast<PoolMemory*>(&device_memory); pool && on_host)
    cache = std::make_unique<PoolCache>(*pool);
}

void StepContext::arm(const RunContext& run, int64_t traced) {
  info = run;
  traced_ns = traced;
  ++armed;
  now.store(nullptr, std::memory_order_relaxed);
}

StepState::StepState(const Program& program, StepContext& context, PartitionExecutor* executor,
                     LoopStates* loops)
    : program(program),
      context(context),
      cache(context.cache.get()),
      executor(executor),
      loops(loops),
      values(program.initial.values),
      missing(program.nodes.firing.size()),
      uses(program.initial.values.size()),
      ready(program.nodes.firing.size() + 1) {}

void StepState::arm(bool observed) {
  const Program::Initial& initial = program.initial;
  std::copy(initial.missing.begin(), initial.missing.end(), missing.begin());
  std::copy(initial.uses.begin(), initial.uses.end(), uses.begin());
  top = 0;
  for (uint32_t i : initial.first_ready) ready[top++] = i;
  next = kNone;
  observe = observed;
}

void StepState::clear() {
  for (size_t slot = 0; slot < values.size(); ++slot)
    if (!program.initial.values[slot].defined()) values[slot].reset();
}

void StepState::settle_apart(uint32_t i, bool dead) { settle(i, dead); }

bool StepState::take_send(uint32_t& i) {
  if (!has_ready()) return false;
  const uint32_t candidate = next != kNone ? next : ready[top - 1];
  const NodeKind kind = node(candidate).kind;
  if ((kind != NodeKind::async && kind != NodeKind::send) || is_dead(candidate)) return false;
  if (next != kNone)
    next = kNone;
  else
    --top;
  i = candidate;
  return true;
}

bool StepState::give_back(const FiringNode& node) {
  if (!node.in_place) return true;
  Tensor& input = values[*program.inputs_of(node)];
  Tensor& made = values[node.out];
  if (input.defined()) return true;
  const Output& type = node.view()->node->inputs[0];
  if (!made.defined() || made.dtype() != type.dtype() || !type.shape().accepts(made.shape()))
    return false;
  input.swap(made);
  return true;
}

}  // namespace troupe
