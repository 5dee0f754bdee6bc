// StepCalls: how a call begins and ends.
#include "actors/engine/step_calls.hpp"

#include <algorithm>
#include <utility>

#include "actors/engine/executor.hpp"

namespace troupe {

std::string StepCalls::open(Firing call) {
  const Program& program = call.state->program;
  const Program::Call& target = program.call_of(call.node);
  if (call.state->site.depth >= target.depth_max)
    return detail::concat(program.place_of(call.node), ": more than ", target.depth_max,
                          " calls, one inside the other, of the ",
                          describe(program.graph->node(target.opener)),
                          "; does it always come to a branch that does not call it? If it does, "
                          "raise FunctionOptions::depth_max");
  open_.push_back(call);
  return {};
}

StepState& StepCalls::begin(PartitionExecutor& root) {
  const auto [outside, node] = std::exchange(open_.back(), {});
  open_.pop_back();
  const Program::Call& target = outside->program.call_of(node);
  if (idle_.size() <= target.body) idle_.resize(target.body + 1);
  std::vector<std::unique_ptr<Call>>& idle = idle_[target.body];
  if (idle.empty()) {
    PartitionExecutor& executor = root.body(target.body);
    idle.push_back(
        std::make_unique<Call>(executor.program(), outside->context, executor, pending_));
  }
  live_.push_back(std::move(idle.back()));
  idle.pop_back();
  Call& call = *live_.back();
  call.loops.arm();
  const StepContext& context = outside->context;
  call.state.arm(context.traced_ns ||
                 (outside->program.many_lanes && begun_++ % kSampleEvery == 1));
  call.state.site = {{outside, node}, outside->order_of(node), outside->site.depth + 1};
  const uint32_t* in = outside->program.inputs_of(outside->node(node));
  for (const auto& [input, slot] : target.arguments)
    call.state.values[slot] = outside->values[in[input]];
  return call.state;
}

std::vector<Tensor> StepCalls::end(StepState& body) {
  const auto at = std::find_if(live_.rbegin(), live_.rend(),
                               [&](const auto& call) { return &call->state == &body; });
  const Program::Interface& interface = body.program.interface;
  std::vector<Tensor> out;
  for (uint32_t slot : interface.results) out.push_back(body.values[slot]);
  for (uint32_t slot : interface.kept) body.values[slot].reset();
  (*at)->loops.clear(/*failed=*/false);
  const Firing& site = body.site.firing;
  std::vector<std::unique_ptr<Call>>& idle = idle_[site.state->program.call_of(site.node).body];
  if (idle.size() < kIdleMax) idle.push_back(std::move(*at));
  *at = std::move(live_.back());
  live_.pop_back();
  return out;
}

void StepCalls::clear() { live_.clear(); }

std::string calls_around(const StepState& state) {
  const int64_t depth = state.site.depth;
  if (depth == 0) return {};
  const StepState* call = &state;
  while (!call->program.is_function()) call = call->site.firing.state;
  const Program& program = call->program;
  return detail::concat("; in ", program.graph->node(program.partition.function).name, ", ", depth,
                        depth == 1 ? " call deep" : " calls deep");
}

}  // namespace troupe
