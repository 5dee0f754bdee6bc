// LoopStates: how iterations begin and end, on the device that is the loop's home and on those that
// follow it.
#include "actors/engine/loop_states.hpp"

#include <algorithm>
#include <cstring>

namespace troupe {

LoopStates::LoopStates(StepState& state, Pending& pending)
    : state_(state),
      pending_(pending),
      loops_(state.program.loops.size()),
      saved_(state.program.saves) {}

void LoopStates::arm() {
  if (loops_.empty()) return;
  for (size_t l = 0; l < loops_.size(); ++l) {
    loops_[l] = {};
    loops_[l].acks.assign(state_.program.loops[l].acks.size(), 0);
  }
  for (auto& values : saved_) values.clear();
  early_.clear();
}

void LoopStates::clear(bool failed) {
  if (failed) {
    next_values_.clear();
    early_.clear();
  }
  for (auto& values : saved_) values.clear();
}

void LoopStates::begin(uint32_t driver) {
  const size_t l = state_.program.nodes.roles[driver];
  const Program::Loop& loop = loop_of(l);
  State& state = loops_[l];
  state.running = true;
  state.observed = state_.observe;
  state.first = state.iteration + 1;
  for (const auto& [from, to] : loop.captured) state_.values[to] = state_.values[from];
  for (const auto& [from, to] : loop.variables.initial) next_values_.push_back(state_.values[from]);
  arm_iteration(l);
}

// The values of variables are in their slots, or in next_values_.
void LoopStates::arm_iteration(size_t l) {
  const Program::Loop& loop = loop_of(l);
  State& state = loops_[l];
  const Program::Initial& initial = state_.program.initial;
  ++state.iteration;
  std::memcpy(&state_.missing[loop.nodes.begin], &initial.missing[loop.nodes.begin],
              (loop.nodes.end - loop.nodes.begin) * sizeof(int32_t));
  std::memcpy(state_.uses.data() + loop.slots.begin, initial.uses.data() + loop.slots.begin,
              (loop.slots.end - loop.slots.begin) * sizeof(int32_t));
  if (!next_values_.empty()) {
    for (size_t v = 0; v < loop.variables.initial.size(); ++v)
      state_.values[loop.variables.initial[v].second].swap(next_values_[v]);
    next_values_.clear();
  }
  // Some iterations of a loop are timed node by node.
  if (state_.program.many_lanes)
    state_.observe = state_.traced_ns || (state.iteration - state.first) % kSampleEvery == 1;
  for (uint32_t i : loop.first_ready) state_.make_ready(i);
  if (!loop.receives.empty()) pending_.await(loop.receives);
}

LoopStates::Turn LoopStates::turn(uint32_t i) {
  const size_t l = state_.program.nodes.roles[i];
  const Program::Loop& loop = loop_of(l);
  const bool again = !state_.is_dead(loop.again);
  if (!loop.acks.empty() && must_wait(l, again)) {
    loops_[l].held = true;
    ++pending_.outstanding;
    return Turn::waits;
  }
  if (!again) return end(l);
  next_iteration(l);
  return Turn::iteration;
}

// The devices that follow must not be too far behind, and have ended when the loop does.
bool LoopStates::must_wait(size_t l, bool again) const {
  const State& state = loops_[l];
  const int64_t ended = state.iteration + 1, behind = again ? loop_of(l).in_flight - 1 : 0;
  return std::any_of(state.acks.begin(), state.acks.end(),
                     [&](int64_t done) { return done < ended - behind; });
}

// Values that only the turn reads move, so that the next iteration may write over them.
void LoopStates::next_iteration(size_t l) {
  const Program::Loop& loop = loop_of(l);
  if (loop.home) {
    const Program::LoopVariables& variables = loop.variables;
    if (!variables.unsure.empty()) check_next(loop);
    for (size_t v = 0; v < variables.next.size(); ++v) {
      const uint32_t slot = variables.next[v];
      const bool last = state_.uses[slot]-- == 1;
      Tensor& to = variables.direct ? state_.values[variables.initial[v].second]
                                    : next_values_.emplace_back();
      if (last)
        to.swap(state_.values[slot]);
      else
        to = state_.values[slot];
    }
  }
  arm_iteration(l);
}

void LoopStates::check_next(const Program::Loop& loop) const {
  const Program::LoopVariables& variables = loop.variables;
  for (uint32_t v : variables.unsure) {
    const Tensor& next = state_.values[variables.next[v]];
    if (variables.types[v].shape.accepts(next.shape())) continue;
    throw Error(Errc::invalid_argument, "the body made ", next.dtype(), next.shape(),
                " of its variable ", variables.names[v], ", which is ", variables.types[v],
                "; say what may change with WhileOptions::shapes");
  }
}

LoopStates::Turn LoopStates::end(size_t l) {
  const Program::Loop& loop = loop_of(l);
  State& state = loops_[l];
  state.running = false;
  state_.observe = state.observed;
  for (const auto& [from, to] : loop.captured) state_.drop(to);
  if (!loop.home) {
    state_.settle_apart(loop.driver, false);
    return Turn::ended;
  }
  if (!state_.program.on_host) return Turn::counts;
  std::vector<Tensor> values = outputs(l);
  values.push_back(count(l));
  std::move(values.begin(), values.end(), &state_.values[state_.node(loop.driver).out]);
  drop_variables(l);
  state_.settle_apart(loop.driver, false);
  return Turn::ended;
}

// Copies: a turn that throws fires again.
std::vector<Tensor> LoopStates::outputs(size_t l) const {
  std::vector<Tensor> out;
  for (const auto& [from, to] : loop_of(l).variables.initial) out.push_back(state_.values[to]);
  return out;
}

Tensor LoopStates::count(size_t l) const {
  const State& state = loops_[l];
  return Tensor::scalar(state.iteration - state.first);
}

// The last values of variables are the loop's outputs now. Values that were made beside the
// condition, for an iteration that there is not, go as well.
void LoopStates::drop_variables(size_t l) {
  const Program::Loop& loop = loop_of(l);
  for (const auto& [from, to] : loop.variables.initial) state_.drop(to);
  for (uint32_t slot : loop.variables.next)
    if (slot >= loop.slots.begin && slot < loop.slots.end &&
        state_.program.initial.uses[slot] < kUncounted)
      state_.drop(slot);
}

void LoopStates::release_variables(size_t l) {
  for (const auto& [from, to] : loop_of(l).variables.initial)
    if (--state_.uses[to] == 0) state_.drop(to);
}

bool LoopStates::takes(size_t edge, Arrival& arrival, StepResult& failure) {
  const Program::Receive& receive = state_.program.edges.receives[edge];
  const Program::Loop& loop = loop_of(receive.loop);
  if (std::find(loop.acks.begin(), loop.acks.end(), receive.node) != loop.acks.end()) {
    if (arrival.code != Errc::ok) failure = {arrival.code, arrival.text};
    acknowledged(receive.loop, receive.node, arrival.iteration);
    return true;
  }
  if (arrival.code != Errc::ok && pending_.has_received(edge))
    failure = {arrival.code, arrival.text};
  const int64_t ahead = arrival.iteration - iteration(receive.loop);
  if (ahead == 0) return false;
  if (ahead > loop.in_flight + 1) {
    if (failure.code == Errc::ok)
      failure = {Errc::bad_data,
                 detail::concat(state_.program.place_of(receive.node), ": a value came ", ahead,
                                " iterations early; is the sender another version?")};
  } else if (ahead > 0) {
    early_.try_emplace({edge, arrival.iteration}, std::move(arrival));
  }
  return true;
}

std::optional<Arrival> LoopStates::take_early(size_t edge) {
  const Program::Receive& receive = state_.program.edges.receives[edge];
  auto early = early_.extract({edge, iteration(receive.loop)});
  if (early.empty()) return std::nullopt;
  return std::move(early.mapped());
}

// A device that follows has ended an iteration. A repetition counts once.
void LoopStates::acknowledged(size_t l, uint32_t node, int64_t iteration) {
  const Program::Loop& loop = loop_of(l);
  State& state = loops_[l];
  int64_t& ended = state.acks[static_cast<size_t>(
      std::find(loop.acks.begin(), loop.acks.end(), node) - loop.acks.begin())];
  ended = std::max(ended, iteration + 1);
  if (!state.held || must_wait(l, !state_.is_dead(loop.again))) return;
  state.held = false;
  --pending_.outstanding;
  state_.make_ready(loop.turn);
}

void LoopStates::save(uint32_t i) {
  const FiringNode& node = state_.node(i);
  saved_[state_.program.nodes.roles[i]].push_back(state_.values[*state_.program.inputs_of(node)]);
  state_.settle_apart(i, false);
}

void LoopStates::restore(uint32_t i) {
  std::vector<Tensor>& values = saved_[state_.program.nodes.roles[i]];
  TROUPE_CHECK(!values.empty(), state_.program.place_of(i), " takes more than was kept");
  state_.values[state_.node(i).out] = std::move(values.back());
  values.pop_back();
  state_.settle_apart(i, false);
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
      text +=
          detail::concat("; the loop ", state_.program.nodes.names[state_.program.loops[l].driver],
                         " was in iteration ", state.iteration - state.first);
    }
  if (running > kNamedMax)
    text += detail::concat("; and ", running - kNamedMax, " more loops were");
  return text;
}

}  // namespace troupe
