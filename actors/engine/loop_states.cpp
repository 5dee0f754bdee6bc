// LoopStates: how iterations begin and end, on the device that is the loop's home and on those that
// follow it.
#include "actors/engine/loop_states.hpp"

#include <algorithm>

#include "actors/engine/executor.hpp"

namespace troupe {

LoopStates::LoopStates(StepState& around, Pending& pending)
    : around_(around),
      pending_(pending),
      loops_(around.program.loops.size()),
      saved_(around.program.saves) {}

void LoopStates::arm() {
  for (size_t l = 0; l < loops_.size(); ++l) {
    State& state = loops_[l];
    state.iteration = -1;
    state.running = state.held = false;
    state.acks.assign(loops_of()[l].acks.size(), 0);
  }
}

void LoopStates::clear(bool failed) {
  for (auto& values : saved_) values.clear();
  early_.clear();
  if (!failed) return;
  next_values_.clear();
  for (State& state : loops_)
    if (state.body) state.body->clear();
}

StepState& LoopStates::begin(Firing driver) {
  StepState& outside = *driver.state;
  const size_t l = outside.program.nodes.roles[driver.node];
  const Program::Loop& loop = loops_of()[l];
  State& state = loops_[l];
  if (!state.body) {
    PartitionExecutor& executor = around_.executor->body(loop.body);
    state.body = std::make_unique<StepState>(executor.program(), around_.context, &executor, this);
  }
  StepState& body = *state.body;
  body.site = {driver, outside.order_of(driver.node), outside.site.depth};
  state.running = true;
  state.first = state.iteration + 1;
  for (const auto& [from, to] : loop.captured) body.values[to] = outside.values[from];
  for (const auto& [from, to] : loop.variables.initial) body.values[to] = outside.values[from];
  arm_iteration(l);
  return body;
}

size_t LoopStates::number_of(const StepState& body) const {
  const Firing& driver = body.site.firing;
  return driver.state->program.nodes.roles[driver.node];
}

// The values of variables are in their slots.
void LoopStates::arm_iteration(size_t l) {
  State& state = loops_[l];
  ++state.iteration;
  state.body->arm(
      around_.context.traced_ns ||
      (around_.program.many_lanes && (state.iteration - state.first) % kSampleEvery == 1));
  const std::vector<size_t>& receives = loops_of()[l].receives;
  if (!receives.empty()) pending_.await(receives);
}

LoopStates::Turn LoopStates::turn(StepState& body) {
  const size_t l = number_of(body);
  const Program::Loop& loop = loops_of()[l];
  const bool again = !body.is_dead(loop.again);
  if (!loop.acks.empty() && must_wait(l, again)) {
    loops_[l].held = true;
    ++pending_.outstanding;
    return Turn::waits;
  }
  if (!again) return Turn::ended;
  next_iteration(l);
  return Turn::iteration;
}

// The devices that follow must not be too far behind, and have ended when the loop does.
bool LoopStates::must_wait(size_t l, bool again) const {
  const State& state = loops_[l];
  const int64_t ended = state.iteration + 1, behind = again ? loops_of()[l].in_flight - 1 : 0;
  return std::any_of(state.acks.begin(), state.acks.end(),
                     [&](int64_t done) { return done < ended - behind; });
}

// Values that only the last node reads move, so that the next iteration may write over them.
void LoopStates::next_iteration(size_t l) {
  const Program::Loop& loop = loops_of()[l];
  StepState& body = *loops_[l].body;
  if (loop.home) {
    const Program::LoopVariables& variables = loop.variables;
    if (!variables.unsure.empty()) check_next(l);
    for (size_t v = 0; v < variables.next.size(); ++v) {
      const uint32_t slot = variables.next[v];
      const bool last = body.uses[slot]-- == 1;
      Tensor& to =
          variables.direct ? body.values[variables.initial[v].second] : next_values_.emplace_back();
      if (last)
        to.swap(body.values[slot]);
      else
        to = body.values[slot];
    }
    for (size_t v = 0; v < next_values_.size(); ++v)
      body.values[variables.initial[v].second].swap(next_values_[v]);
    next_values_.clear();
  }
  arm_iteration(l);
}

void LoopStates::check_next(size_t l) const {
  const Program::LoopVariables& variables = loops_of()[l].variables;
  for (uint32_t v : variables.unsure) {
    const Tensor& next = loops_[l].body->values[variables.next[v]];
    if (variables.types[v].shape.accepts(next.shape())) continue;
    throw Error(Errc::invalid_argument, "the body made ", next.dtype(), next.shape(),
                " of its variable ", variables.names[v], ", which is ", variables.types[v],
                "; say what may change with WhileOptions::shapes");
  }
}

// Values that were made beside the condition, for an iteration that there is not, go as well.
std::vector<Tensor> LoopStates::end(StepState& body) {
  const size_t l = number_of(body);
  const Program::Loop& loop = loops_of()[l];
  State& state = loops_[l];
  std::vector<Tensor> out;
  Tensor count;
  if (loop.home) {  // all that may throw stands first: a node that throws fires again
    out.reserve(loop.variables.initial.size() + 1);
    count = Tensor::scalar(state.iteration - state.first);
  }
  state.running = false;
  for (const auto& [from, to] : loop.captured) body.drop(to);
  if (!loop.home) return out;
  for (const auto& [from, to] : loop.variables.initial) out.push_back(std::move(body.values[to]));
  out.push_back(std::move(count));
  for (uint32_t slot : loop.variables.next)
    if (body.program.initial.uses[slot] < kUncounted) body.drop(slot);
  return out;
}

void LoopStates::release_variables(StepState& body) {
  for (const auto& [from, to] : loop_of(body).variables.initial)
    if (--body.uses[to] == 0) body.drop(to);
}

StepState* LoopStates::state_for(size_t edge, Arrival& arrival, StepResult& failure,
                                 StepState*& go_on) {
  const Program::Receive& receive = around_.program.edges.receives[edge];
  const Program::Loop& loop = loops_of()[receive.loop];
  if (std::find(loop.acks.begin(), loop.acks.end(), receive.node) != loop.acks.end()) {
    if (arrival.code != Errc::ok) failure = {arrival.code, arrival.text};
    go_on = acknowledged(receive.loop, receive.node, arrival.iteration);
    return nullptr;
  }
  if (arrival.code != Errc::ok && pending_.has_received(edge))
    failure = {arrival.code, arrival.text};
  const int64_t ahead = arrival.iteration - iteration(receive.loop);
  if (ahead == 0) return loops_[receive.loop].body.get();
  if (ahead > loop.in_flight + 1) {
    if (failure.code == Errc::ok)
      failure = {Errc::bad_data,
                 detail::concat("node ", receive.name, " on ", around_.program.partition.device,
                                ": a value came ", ahead,
                                " iterations early; is the sender another version?")};
  } else if (ahead > 0) {
    early_.try_emplace({edge, arrival.iteration}, std::move(arrival));
  }
  return nullptr;
}

std::optional<Arrival> LoopStates::take_early(size_t edge) {
  const Program::Receive& receive = around_.program.edges.receives[edge];
  auto early = early_.extract({edge, iteration(receive.loop)});
  if (early.empty()) return std::nullopt;
  return std::move(early.mapped());
}

// A device that follows has ended an iteration. A repetition counts once.
StepState* LoopStates::acknowledged(size_t l, uint32_t node, int64_t iteration) {
  const Program::Loop& loop = loops_of()[l];
  State& state = loops_[l];
  int64_t& ended = state.acks[static_cast<size_t>(
      std::find(loop.acks.begin(), loop.acks.end(), node) - loop.acks.begin())];
  ended = std::max(ended, iteration + 1);
  if (!state.held || must_wait(l, !state.body->is_dead(loop.again))) return nullptr;
  state.held = false;
  --pending_.outstanding;
  state.body->make_ready(loop.end);
  return state.body.get();
}

void LoopStates::save(Firing save) {
  StepState& state = *save.state;
  saved_[state.program.nodes.roles[save.node]].push_back(
      state.values[*state.program.inputs_of(state.node(save.node))]);
  state.settle_apart(save.node, false);
}

void LoopStates::restore(Firing restore) {
  StepState& state = *restore.state;
  std::vector<Tensor>& values = saved_[state.program.nodes.roles[restore.node]];
  TROUPE_CHECK(!values.empty(), state.program.place_of(restore.node), " takes more than was kept");
  state.values[state.node(restore.node).out] = std::move(values.back());
  values.pop_back();
  state.settle_apart(restore.node, false);
}

void LoopStates::abandon() {
  for (State& state : loops_)
    if (std::exchange(state.held, false)) --pending_.outstanding;
}

std::string LoopStates::under_way() const {
  constexpr int kNamedMax = 8;
  std::string text;
  int running = 0;
  for (size_t l = 0; l < loops_.size(); ++l)
    if (const State& state = loops_[l]; state.running && ++running <= kNamedMax) {
      const Firing& driver = state.body->site.firing;
      text += detail::concat("; the loop ", driver.state->program.nodes.names[driver.node],
                             " was in iteration ", state.iteration - state.first);
    }
  if (running > kNamedMax)
    text += detail::concat("; and ", running - kNamedMax, " more loops were");
  return text;
}

}  // namespace troupe
