// Implements several iterations of a loop at a time, for actors/activation.hpp. Each is in a copy
// of the loop's nodes (Stage::Copies), and is armed as soon as the one before says that there is
// another, if a copy is free and there is memory. What an iteration reads of the one before comes
// to it one by one, through its passes; so it fires what has all of its inputs, while the one
// before still runs. The loop ends when the last iteration and all before it have ended.
//
// A loop is worth that if it has a node that goes to other lanes; all others run one iteration
// after the other (activation_control.cpp).
#include <algorithm>
#include <bit>
#include <cstring>

#include "actors/firing_jobs.hpp"

namespace troupe {
namespace {

constexpr uint64_t bit_of(uint32_t copy) { return uint64_t{1} << copy; }

}  // namespace

// A node of it is costly, and it was seen what an iteration needs.
bool Activation::may_overlap(size_t l) const {
  const Stage::Loop& loop = stage_.loops_[l];
  if (loop.copies.count == 0 || iteration_bytes_[l].inputs != loops_[l].inputs) return false;
  const FiringNode* nodes = stage_.nodes_.data();
  return std::any_of(nodes + loop.begin, nodes + loop.end, [](const FiringNode& node) {
    return node.kind == NodeKind::plain && node.costly.load(std::memory_order_relaxed);
  });
}

int64_t Activation::bytes_before(size_t l) const {
  int64_t sum = 0;
  for (const auto& [from, to] : stage_.loops_[l].captured) sum += values_[from].byte_size();
  for (const auto& [from, to] : stage_.loops_[l].initial) sum += values_[from].byte_size();
  return sum;
}

void Activation::count_made(const FiringNode& node) {
  for (uint32_t k = 0; k < node.n_out; ++k)
    if (const Tensor& made = values_[node.out + k]; made.defined()) made_bytes_ += made.byte_size();
}

// From the next iteration on. The values of its variables are in their slots, or in next_values_.
void Activation::overlap(size_t l) {
  const Stage::Loop& loop = stage_.loops_[l];
  const Stage::Copies& copies = loop.copies;
  LoopState& state = loops_[l];
  state.in_flight = true;
  state.wanted = false;
  state.first_in_flight = state.iteration + 1;
  state.open = state.busy = 0;
  state.last = kNone;
  state.not_taken.assign(copies.count, 0);
  const uint32_t shift = loop.slot_shift(0);
  for (size_t v = 0; v < loop.initial.size(); ++v) {
    const uint32_t slot = loop.initial[v].second;
    values_[slot + shift].swap(next_values_.empty() ? values_[slot] : next_values_[v]);
  }
  next_values_.clear();
  for (uint32_t c = 0; c < copies.count; ++c)
    std::copy_n(&stage_.missing_[copies.begin + c * copies.stride], copies.passes,
                &missing_[copies.begin + c * copies.stride]);
  arm_copy(l);
}

void Activation::arm_copy(size_t l) {
  const Stage::Loop& loop = stage_.loops_[l];
  const Stage::Copies& copies = loop.copies;
  LoopState& state = loops_[l];
  ++state.iteration;
  const auto c = static_cast<uint32_t>((state.iteration - state.first_in_flight) % copies.count);
  state.wanted = false;
  state.open |= bit_of(c);
  state.busy |= bit_of(c);
  state.not_taken[c] = static_cast<uint32_t>(loop.initial.size());
  const uint32_t first = copies.begin + c * copies.stride, nodes = first + copies.passes,
                 slots = loop.slot_begin + loop.slot_shift(c);
  std::memcpy(&missing_[nodes], &stage_.missing_[nodes],
              (copies.stride - copies.passes) * sizeof(int32_t));
  std::memcpy(uses_.data() + slots, stage_.uses_.data() + slots,
              copies.slot_stride * sizeof(int32_t));
  for (uint32_t slot : copies.shared) uses_[slot] = stage_.uses_[slot];
  const int64_t count = (state.iteration - state.first) % kSampleEvery;
  observe_ = armed_ns_ || (count >= 1 && count <= copies.count);
  sampled_ = kNone;
  for (uint32_t ready : copies.first_ready) make_ready(first + ready);
  // The first one takes nothing from one before. Its passes are over before another node fires:
  // who counts them down next means those of the iteration that has the copy next.
  const bool enters = state.iteration == state.first_in_flight;
  for (uint32_t p = copies.passes; p-- > 0;) {
    if (enters)
      settle_arrived(first + p, false);
    else if (--missing_[first + p] == 0)
      make_ready(first + p);
  }
}

// The next iteration begins, if there is one and nothing stands in its way. With none under way it
// always does: so a loop that has room for one iteration at a time goes on like that.
void Activation::arm_next(size_t l) {
  LoopState& state = loops_[l];
  if (!state.wanted) return;
  const int64_t next = state.iteration + 1 - state.first_in_flight;
  if (state.busy & bit_of(static_cast<uint32_t>(next % stage_.loops_[l].copies.count))) return;
  if (state.open == 0 || has_room(l)) arm_copy(l);
}

// Each may need what one was seen to make, and as much again for what kernels take beside.
bool Activation::has_room(size_t l) const {
  const MemoryStats now = stage_.host_.device->memory().stats();
  const int64_t iterations = std::popcount(loops_[l].open) + 1;
  return iteration_bytes_[l].made <= (now.budget_bytes - now.used_bytes) / (2 * iterations);
}

// An iteration takes a variable, or its turn in an order of effects, from the one before.
void Activation::pass(uint32_t i) {
  const size_t l = stage_.role_of_[i];
  const Stage::Loop& loop = stage_.loops_[l];
  const uint32_t c = loop.copy_of(i), before = loop.before(c);
  const uint32_t v = (i - loop.copies.begin) % loop.copies.stride;
  const bool takes = v < loop.initial.size();
  if (takes) {
    const uint32_t next = loop.next[v];
    Tensor& from = values_[stage_.same_in_all(next) ? next : next + loop.slot_shift(before)];
    if (std::binary_search(loop.unsure.begin(), loop.unsure.end(), v)) check_next(l, v, from);
    const bool last = --uses_[static_cast<size_t>(&from - values_.data())] == 0;
    Tensor& to = values_[loop.initial[v].second + loop.slot_shift(c)];
    if (last)
      to.swap(from);
    else
      to = from;
  }
  missing_[i] = stage_.missing_[i];
  settle_arrived(i, false);
  if (!takes || --loops_[l].not_taken[before] > 0 || (loops_[l].open & bit_of(before))) return;
  loops_[l].busy &= ~bit_of(before);
  arm_next(l);
}

// The iteration's `again` says that there is another one.
void Activation::goes_on(uint32_t again) {
  const size_t l = stage_.role_of_[again];
  const Stage::Loop& loop = stage_.loops_[l];
  release_variables(l, loop.slot_shift(loop.copy_of(again)));
  loops_[l].wanted = true;
  arm_next(l);
}

// All of an iteration has fired.
void Activation::copy_ended(uint32_t turn) {
  const size_t l = stage_.role_of_[turn];
  const Stage::Loop& loop = stage_.loops_[l];
  const uint32_t c = loop.copy_of(turn);
  LoopState& state = loops_[l];
  state.open &= ~bit_of(c);
  if (missing_[loop.node_in(c, loop.again)] & kDeadBit)
    state.last = c;
  else if (state.not_taken[c] == 0)
    state.busy &= ~bit_of(c);
  if (state.last == kNone)
    arm_next(l);
  else if (state.open == 0)
    end_loop(l);
}

int64_t Activation::iteration_in(size_t l, uint32_t c) const {
  const LoopState& state = loops_[l];
  const int64_t count = stage_.loops_[l].copies.count;
  return state.iteration - (state.iteration - state.first_in_flight - c + count) % count;
}

int64_t Activation::oldest_open(size_t l) const {
  int64_t oldest = loops_[l].iteration;
  for (uint32_t c = 0; c < stage_.loops_[l].copies.count; ++c)
    if (loops_[l].open & bit_of(c)) oldest = std::min(oldest, iteration_in(l, c));
  return oldest;
}

}  // namespace troupe
