// Implements the control flow of actors/engine/activation.hpp: what is dead, choices and what joins
// them again, and loops.
//
// The nodes of a loop stand in a row, and so do their values. An iteration arms them anew, by
// copies of two arrays, and has ended when its turn fires, the node that waits for all others. So
// one iteration at a time is under way on one device; a device that has nothing to wait for may be
// a bounded number of iterations ahead of those that follow it.
#include <algorithm>
#include <cstring>

#include "actors/engine/firing_jobs.hpp"

namespace troupe {

void Activation::fire_control(uint32_t i, const FiringNode& node) {
  switch (node.kind) {
    case NodeKind::branch:
      return choose(i, node);
    case NodeKind::merge:
      return merge(i, node);
    case NodeKind::loop:
      return begin_loop(i);
    case NodeKind::turn:
      return turn(i);
    case NodeKind::call:
      return call(i);
    case NodeKind::save:
      saved_[stage_.program_.nodes.roles[i]].push_back(values_[*input_slots(node)]);
      return settle_arrived(i, false);
    case NodeKind::restore: {
      std::vector<Tensor>& values = saved_[stage_.program_.nodes.roles[i]];
      TROUPE_CHECK(!values.empty(), stage_.program_.place_of(i), " takes more than was kept");
      values_[node.out] = std::move(values.back());
      values.pop_back();
      return settle_arrived(i, false);
    }
    default:
      throw InternalError("the ", stage_.program_.place_of(i), " is of no kind that fires");
  }
}

// Some of what the node waited for is dead, and so is the node, unless it takes what is alive or
// only waits. The others are told.
void Activation::fire_dead(uint32_t i, const FiringNode& node) {
  if (node.kind == NodeKind::merge) return merge(i, node);
  if (node.kind == NodeKind::turn) return turn(i);
  if (node.kind == NodeKind::send) send(i);
  settle_arrived(i, true);
}

// The node's kernel says whether what comes after it is alive.
void Activation::choose(uint32_t i, const FiringNode& node) {
  thread_local Tensor taken = Tensor::scalar(false);
  call_.bind(*node.view, values_.data(), input_slots(node), node.n_in, &taken, own_memory(), info_,
             /*may_reuse_input0=*/false);
  node.run.load(std::memory_order_relaxed)(call_.context);
  const bool alive = *taken.data<bool>();
  if (!alive) missing_[i] |= kDeadBit;
  if (const uint32_t l = stage_.program_.nodes.roles[i]; alive && l != kNone) release_variables(l);
  settle_arrived(i, !alive);
}

// The loop goes on, so it does not need the variables for its end: the body may write over them.
void Activation::release_variables(size_t l) {
  for (const auto& [from, to] : stage_.program_.loops[l].variables.initial)
    if (--uses_[to] == 0) drop(to);
}

// values_[slot].reset(), but what the step's cache may have goes there.
void Activation::drop(uint32_t slot) {
  if (cache_)
    cache_->drop(values_[slot]);
  else
    values_[slot].reset();
}

// A dead node has left its slots empty.
void Activation::merge(uint32_t i, const FiringNode& node) {
  const uint32_t* in = input_slots(node);
  for (uint32_t p = 0; p < node.n_in; ++p) {
    if (!values_[in[p]].defined()) continue;
    values_[node.out] = values_[in[p]];
    return settle_arrived(i, false);
  }
  settle_arrived(i, true);
}

void Activation::begin_loop(uint32_t driver) {
  const size_t l = stage_.program_.nodes.roles[driver];
  const Program::Loop& loop = stage_.program_.loops[l];
  LoopState& state = loops_[l];
  state.running = true;
  state.observed = observe_;
  state.first = state.iteration + 1;
  for (const auto& [from, to] : loop.captured) values_[to] = values_[from];
  for (const auto& [from, to] : loop.variables.initial) next_values_.push_back(values_[from]);
  arm_iteration(l);
}

// The values of variables are in their slots, or in next_values_.
void Activation::arm_iteration(size_t l) {
  const Program::Loop& loop = stage_.program_.loops[l];
  LoopState& state = loops_[l];
  ++state.iteration;
  last_try_ = kNone;
  std::memcpy(&missing_[loop.nodes.begin], &stage_.program_.initial.missing[loop.nodes.begin],
              (loop.nodes.end - loop.nodes.begin) * sizeof(int32_t));
  std::memcpy(uses_.data() + loop.slots.begin,
              stage_.program_.initial.uses.data() + loop.slots.begin,
              (loop.slots.end - loop.slots.begin) * sizeof(int32_t));
  if (!next_values_.empty()) {
    for (size_t v = 0; v < loop.variables.initial.size(); ++v)
      values_[loop.variables.initial[v].second].swap(next_values_[v]);
    next_values_.clear();
  }
  // Of the iterations of a loop some are timed node by node.
  if (stage_.host_.lanes > 1)
    observe_ = armed_ns_ || (state.iteration - state.first) % kSampleEvery == 1;
  for (uint32_t i : loop.first_ready) make_ready(i);
  if (loop.receives.empty()) return;
  outstanding_ += static_cast<int64_t>(loop.receives.size());
  {
    std::lock_guard lock(mutex_);
    for (size_t e : loop.receives) awaited_edges_[e] = true;
  }
  for (size_t e : loop.receives) received_[e] = false;
  for (size_t e : loop.receives) {
    auto early = early_.extract({e, state.iteration});
    if (!early.empty()) received(early.mapped());
  }
}

// What came over an edge of a loop: for an iteration that is not armed yet it waits; an old one is
// a repetition.
bool Activation::comes_early(size_t edge_index, Arrival& arrival) {
  const size_t l = stage_.program_.edges.receives[edge_index].loop;
  const uint32_t i = stage_.program_.edges.receives[edge_index].node;
  const std::vector<uint32_t>& acks = stage_.program_.loops[l].acks;
  if (std::find(acks.begin(), acks.end(), i) != acks.end()) {
    if (arrival.code != Errc::ok) stop(arrival.code, arrival.text);
    acknowledged(l, i, arrival.iteration);
    return true;
  }
  if (arrival.code != Errc::ok && received_[edge_index]) stop(arrival.code, arrival.text);
  const int64_t ahead = arrival.iteration - loops_[l].iteration;
  if (ahead == 0) return false;
  if (ahead > stage_.program_.loops[l].in_flight + 1)
    stop(Errc::bad_data, detail::concat(stage_.program_.place_of(i), ": a value came ", ahead,
                                        " iterations early; is the sender another version?"));
  else if (ahead > 0)
    early_.try_emplace({edge_index, arrival.iteration}, std::move(arrival));
  return true;
}

// A device that follows has ended an iteration. Said twice, that counts once.
void Activation::acknowledged(size_t l, uint32_t node, int64_t iteration) {
  const std::vector<uint32_t>& acks = stage_.program_.loops[l].acks;
  LoopState& state = loops_[l];
  int64_t& ended =
      state.acks[static_cast<size_t>(std::find(acks.begin(), acks.end(), node) - acks.begin())];
  ended = std::max(ended, iteration + 1);
  const bool again = !(missing_[stage_.program_.loops[l].again] & kDeadBit);
  if (!state.held || must_wait(l, again)) return;
  state.held = false;
  --outstanding_;
  make_ready(stage_.program_.loops[l].turn);
}

// Those who follow must not be too far behind, and have ended when the loop does.
bool Activation::must_wait(size_t l, bool again) const {
  const LoopState& state = loops_[l];
  const int64_t ended = state.iteration + 1,
                behind = again ? stage_.program_.loops[l].in_flight - 1 : 0;
  return std::any_of(state.acks.begin(), state.acks.end(),
                     [&](int64_t done) { return done < ended - behind; });
}

void Activation::turn(uint32_t i) {
  const size_t l = stage_.program_.nodes.roles[i];
  const Program::Loop& loop = stage_.program_.loops[l];
  const bool again = !(missing_[loop.again] & kDeadBit);
  if (!loop.acks.empty() && must_wait(l, again)) {
    loops_[l].held = true;
    ++outstanding_;
    return;
  }
  if (again)
    next_iteration(l);
  else
    end_loop(l);
}

// Values that only the turn reads move, so that the next iteration may write over them.
void Activation::next_iteration(size_t l) {
  const Program::Loop& loop = stage_.program_.loops[l];
  if (loop.home) {
    if (!loop.variables.unsure.empty()) check_next(l);
    for (size_t v = 0; v < loop.variables.next.size(); ++v) {
      const uint32_t slot = loop.variables.next[v];
      const bool last = uses_[slot]-- == 1;
      Tensor& to = loop.variables.direct ? values_[loop.variables.initial[v].second]
                                         : next_values_.emplace_back();
      if (last)
        to.swap(values_[slot]);
      else
        to = values_[slot];
    }
  }
  arm_iteration(l);
}

void Activation::check_next(size_t l) const {
  const Program::Loop& loop = stage_.program_.loops[l];
  for (uint32_t v : loop.variables.unsure) {
    const Tensor& next = values_[loop.variables.next[v]];
    if (loop.variables.types[v].shape.accepts(next.shape())) continue;
    throw Error(Errc::invalid_argument, "the body made ", next.dtype(), next.shape(),
                " of its variable ", loop.variables.names[v], ", which is ",
                loop.variables.types[v], "; say what may change with WhileOptions::shapes");
  }
}

void Activation::end_loop(size_t l) {
  const Program::Loop& loop = stage_.program_.loops[l];
  LoopState& state = loops_[l];
  state.running = false;
  observe_ = state.observed;
  for (const auto& [from, to] : loop.captured) drop(to);
  if (!loop.home) return settle_arrived(loop.driver, false);
  std::vector<Tensor> outputs;
  // Not moved: what throws here is fired again.
  for (const auto& [from, to] : loop.variables.initial) outputs.push_back(values_[to]);
  const Tensor count = Tensor::scalar(state.iteration - state.first);
  if (stage_.host_.device->on_host()) {
    outputs.push_back(count);
    std::move(outputs.begin(), outputs.end(),
              &values_[stage_.program_.nodes.firing[loop.driver].out]);
    drop_variables(l);
    return settle_arrived(loop.driver, false);
  }
  // The node settles when the number of iterations is in the device's memory, too.
  stage_.host_.device->copy_from_host(
      count, [step = ActivationPtr{this}, driver = loop.driver, outputs = std::move(outputs)](
                 Errc code, std::string text, Tensor copy) mutable {
        auto done = std::make_unique<Arrival>();
        done->kind = Arrival::async;
        done->node = driver;
        done->code = code;
        done->text = std::move(text);
        done->outputs = std::move(outputs);
        done->outputs.push_back(std::move(copy));
        step->post(std::move(done));
      });
  drop_variables(l);
  ++outstanding_;
}

// The last values of variables are the loop's outputs now. What was made beside the condition for
// an iteration that there is not is dropped, too.
void Activation::drop_variables(size_t l) {
  const Program::Loop& loop = stage_.program_.loops[l];
  for (const auto& [from, to] : loop.variables.initial) drop(to);
  for (uint32_t slot : loop.variables.next)
    if (slot >= loop.slots.begin && slot < loop.slots.end &&
        stage_.program_.initial.uses[slot] < kUncounted)
      drop(slot);
}

std::string Activation::loops_under_way() const {
  constexpr int kNamedMax = 8;
  std::string text;
  int running = 0;
  for (size_t l = 0; l < loops_.size(); ++l)
    if (const LoopState& state = loops_[l]; state.running && ++running <= kNamedMax) {
      text += detail::concat("; the loop ", stage_.name_of(stage_.program_.loops[l].driver),
                             " was in iteration ", state.iteration - state.first);
    }
  if (running > kNamedMax)
    text += detail::concat("; and ", running - kNamedMax, " more loops were");
  return text;
}

}  // namespace troupe
