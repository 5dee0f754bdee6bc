// StepState: what happens once a step, and what the firing loop does not do itself.
#include "actors/engine/step_state.hpp"
#include "devices/run_context.hpp"

namespace troupe {

StepState::StepState(const Program& program, Memory& device_memory)
    : program(program),
      values(program.initial.values),
      missing(program.nodes.firing.size()),
      uses(program.initial.values.size()),
      ready(program.nodes.firing.size() + 1),
      device_memory(device_memory) {
  if (auto* pool = dynamic_cast<PoolMemory*>(&device_memory); pool && program.on_host)
    cache = std::make_unique<PoolCache>(*pool);
}

void StepState::arm(const RunContext& run, int64_t traced_at) {
  const Program::Initial& initial = program.initial;
  std::copy(initial.missing.begin(), initial.missing.end(), missing.begin());
  std::copy(initial.uses.begin(), initial.uses.end(), uses.begin());
  std::copy(initial.first_ready.begin(), initial.first_ready.end(), ready.begin());
  top = initial.first_ready.size();
  next = kNone;
  now.store(kNone, std::memory_order_relaxed);
  info = run;
  traced_ns = traced_at;
  const int64_t count = armed++;
  observe = (program.many_lanes && count % kSampleEvery == 1) || traced_at;
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
  now.store(i, std::memory_order_relaxed);
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
