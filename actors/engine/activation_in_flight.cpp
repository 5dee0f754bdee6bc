// Implements several iterations of a loop at a time, for actors/engine/activation.hpp. Each is in a
// copy of the loop's nodes (Stage::Copies), and is armed as soon as the one before says that there
// is another, if a copy is free and there is memory. What an iteration reads of the one before
// comes to it one by one, through its passes; so it fires what has all of its inputs, while the one
// before still runs. The loop ends when the last iteration and all before it have ended. A loop in
// the body is, in each copy, a loop of its own; it runs as any other, in its nodes there or in
// copies of these.
//
// A loop is worth that if it has a node that goes to other lanes; all others run one iteration
// after the other (activation_control.cpp).
//
// Where one iteration at a time has enough memory, several have: a node that finds none while
// several are under way is put off until one of them has ended, and fewer are begun from then on.
// If nothing else can run, and no iteration before its own waits for others, the first of those put
// off is fired alone; if it still finds none, the loop begins again, one iteration at a time: its
// driver holds what it began with until it ends.
// Only a loop with effects, or one that takes what another has saved, cannot do that.
#include <algorithm>
#include <bit>
#include <cstring>

#include "actors/engine/firing_jobs.hpp"

namespace troupe {
namespace {

constexpr uint64_t bit_of(uint32_t copy) { return uint64_t{1} << copy; }

}  // namespace

// A node of it is costly, and it was seen what an iteration needs.
bool Activation::may_overlap(size_t l) {
  const Stage::Loop& loop = stage_.loops_[l];
  const IterationBytes& seen = iteration_bytes_[loop.origin];
  const int64_t inputs = loops_[l].inputs;
  if (loop.copies.count == 0 || seen.alone == inputs || seen.inputs != inputs || !has_costly(l))
    return false;
  stage_.make_copies(l);
  return true;
}

bool Activation::has_costly(size_t l) const {
  const Stage::Loop& loop = stage_.loops_[l];
  const FiringNode* nodes = stage_.nodes_.data();
  return std::any_of(nodes + loop.begin, nodes + loop.end, [](const FiringNode& node) {
    return node.kind == NodeKind::plain && node.costly.load(std::memory_order_relaxed);
  });
}

void Activation::note_beginning(size_t l) {
  const Stage::Copies& copies = stage_.loops_[l].copies;
  LoopState& state = loops_[l];
  state.inputs = bytes_before(l);
  state.made = 0;
  if (!copies.repeatable) return;
  state.saved.clear();
  for (uint32_t save : copies.saves) state.saved.push_back(saved_[save].size());
}

// One was weighed. Of a loop in it two iterations count: one reads what the one before has made.
void Activation::note_iteration(size_t l) {
  const Stage::Loop& loop = stage_.loops_[l];
  IterationBytes& seen = iteration_bytes_[loop.origin];
  seen.inputs = loops_[l].inputs;
  seen.made = loops_[l].made;
  const Stage::Loop* counted = nullptr;  // with the loops in it
  for (uint32_t k : loop.inner) {
    if (counted && counted->has(stage_.loops_[k].driver)) continue;
    const IterationBytes& inside = iteration_bytes_[stage_.loops_[k].origin];
    const LoopState& state = loops_[k];  // one that is never in flight is counted as a whole
    const int64_t trips = std::max<int64_t>(state.iteration - state.first + 1, 1);
    const bool weighed = inside.inputs >= 0;
    seen.made += 2 * (weighed ? inside.made : state.made / trips);
    if (weighed) counted = &stage_.loops_[k];
  }
}

int64_t Activation::bytes_before(size_t l) const {
  int64_t sum = 0;
  for (const auto& [from, to] : stage_.loops_[l].captured) sum += values_[from].byte_size();
  for (const auto& [from, to] : stage_.loops_[l].initial) sum += values_[from].byte_size();
  return sum;
}

void Activation::count_made(uint32_t i) {
  const uint32_t l = stage_.loop_of(i);
  if (l == Stage::kNoLoop) return;
  const FiringNode& node = stage_.nodes_[i];
  for (uint32_t k = 0; k < node.n_out; ++k)
    if (const Tensor& made = values_[node.out + k]; made.defined())
      loops_[l].made += made.byte_size();
}

// From the next iteration on. The values of its variables are in their slots, or in next_values_.
void Activation::overlap(size_t l) {
  const Stage::Loop& loop = stage_.loops_[l];
  const Stage::Copies& copies = loop.copies;
  LoopState& state = loops_[l];
  grow(copies.begin + size_t{copies.count} * copies.stride,
       copies.slot_begin + size_t{copies.count} * copies.slot_stride);
  if (const size_t loops = loop.loop_in(copies.count, 0);
      !loop.inner.empty() && loops_.size() < loops)
    loops_.resize(loops);
  stop_weighing(l);
  state.timed = false;
  state.in_flight = true;
  state.wanted = false;
  state.most = copies.count;
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
    std::copy_n(copies.missing.begin(), copies.passes, &missing_[copies.begin + c * copies.stride]);
  arm_copy(l);
}

void Activation::arm_copy(size_t l) {
  const Stage::Loop& loop = stage_.loops_[l];
  const Stage::Copies& copies = loop.copies;
  LoopState& state = loops_[l];
  ++state.iteration;
  last_try_ = kNone;
  const auto c = static_cast<uint32_t>((state.iteration - state.first_in_flight) % copies.count);
  state.wanted = false;
  state.open |= bit_of(c);
  state.busy |= bit_of(c);
  state.not_taken[c] = static_cast<uint32_t>(loop.initial.size());
  const uint32_t first = copies.begin + c * copies.stride, nodes = first + copies.passes,
                 slots = loop.slot_begin + loop.slot_shift(c);
  std::memcpy(&missing_[nodes], &copies.missing[copies.passes],
              (copies.stride - copies.passes) * sizeof(int32_t));
  std::memcpy(uses_.data() + slots, stage_.uses_.data() + loop.origin_slot_begin,
              copies.slot_stride * sizeof(int32_t));
  for (const auto& [slot, origin] : copies.shared) uses_[slot] = stage_.uses_[origin];
  const int64_t count = (state.iteration - state.first) % kSampleEvery;
  observe_ = armed_ns_ || weighing_ > 0 || (count >= 1 && count <= copies.count);
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
  const auto open = static_cast<uint32_t>(std::popcount(state.open));
  if (open == 0 || (open < state.most && has_room(l))) arm_copy(l);
}

// Each may need what one was seen to make, and as much again for what kernels take beside. In
// copies of a loop around it the same loop may run several times.
bool Activation::has_room(size_t l) const {
  const MemoryStats now = stage_.host_.device->memory().stats();
  const uint32_t origin = stage_.loops_[l].origin;
  int64_t iterations = 1;
  for (size_t k = 0; k < loops_.size(); ++k)
    if (stage_.loops_[k].origin == origin) iterations += std::popcount(loops_[k].open);
  return iteration_bytes_[origin].made <= (now.budget_bytes - now.used_bytes) / (2 * iterations);
}

// An iteration takes a variable, or its turn in an order of effects, from the one before.
void Activation::pass(uint32_t i) {
  const size_t l = stage_.role_of(i);
  const Stage::Loop& loop = stage_.loops_[l];
  const uint32_t c = loop.copy_of(i), before = loop.before(c);
  const uint32_t v = (i - loop.copies.begin) % loop.copies.stride;
  const bool takes = v < loop.initial.size();
  if (takes) {
    Tensor& from = values_[stage_.slot_in(loop, before, loop.next[v])];
    if (std::binary_search(loop.unsure.begin(), loop.unsure.end(), v)) check_next(l, v, from);
    const bool last = --uses_[static_cast<size_t>(&from - values_.data())] == 0;
    Tensor& to = values_[loop.initial[v].second + loop.slot_shift(c)];
    if (last)
      to.swap(from);
    else
      to = from;
  }
  missing_[i] = loop.copies.missing[v];
  settle_arrived(i, false);
  if (!takes || --loops_[l].not_taken[before] > 0 || (loops_[l].open & bit_of(before))) return;
  loops_[l].busy &= ~bit_of(before);
  arm_next(l);
}

// The iteration's `again` says that there is another one.
void Activation::goes_on(uint32_t again) {
  const size_t l = stage_.role_of(again);
  const Stage::Loop& loop = stage_.loops_[l];
  release_variables(l, loop.slot_shift(loop.copy_of(again)));
  loops_[l].wanted = true;
  arm_next(l);
}

// All of an iteration has fired.
void Activation::copy_ended(uint32_t turn) {
  const size_t l = stage_.role_of(turn);
  const Stage::Loop& loop = stage_.loops_[l];
  const uint32_t c = loop.copy_of(turn);
  LoopState& state = loops_[l];
  state.open &= ~bit_of(c);
  if (!put_off_.empty()) try_again();
  if (missing_[loop.node_in(c, loop.again)] & kDeadBit)
    state.last = c;
  else if (state.not_taken[c] == 0)
    state.busy &= ~bit_of(c);
  if (state.last == kNone)
    arm_next(l);
  else if (state.open == 0)
    end_loop(l);
}

// A node has found no memory. True: it is fired again when there may be more, as iterations,
// kernels on lanes or calls hold some now, or others go before it that were put off.
bool Activation::put_off(uint32_t i) {
  bool crowded = false;
  for (size_t l = 0; l < loops_.size(); ++l) {
    if (!is_crowded(l)) continue;
    crowded = true;
    LoopState& state = loops_[l];
    const auto open = static_cast<uint32_t>(std::popcount(state.open));
    if (open / 2 >= state.most) continue;
    state.most = std::max(1U, open / 2);
    if (stage_.host_.warn)
      stage_.host_.warn(detail::concat("memory is short, fewer iterations at a time: loop=",
                                       stage_.name_of(stage_.loops_[l].driver), " device=",
                                       stage_.device(), " run=", info_.run, " most=", state.most));
  }
  const bool last_try = std::exchange(last_try_, kNone) == i;  // nothing ran beside it
  if (stopped()) return false;
  if (!crowded && calls_ == 0 && (last_try || (jobs_ == 0 && put_off_.empty()))) return false;
  if (crowded && last_try) {
    if (!can_begin_again()) return false;
    begins_again_ = true;
  }
  put_off_.push_back(i);
  return true;
}

bool Activation::can_begin_again() const {
  for (size_t l = 0; l < loops_.size(); ++l)
    if (is_crowded(l) && stage_.loops_[l].copies.repeatable) return true;
  return false;
}

// By this one thread fires nodes: number, and before it those of the loops that the node is in,
// each with the iteration, the outermost first.
std::vector<int64_t> Activation::order_of(uint32_t i) const {
  std::vector<int64_t> order = {stage_.original(i)};
  for (uint32_t l = stage_.loop_of(i); l != Stage::kNoLoop; l = stage_.loop_of(i)) {
    const Stage::Loop& loop = stage_.loops_[l];
    const LoopState& state = loops_[l];
    const bool copied = state.in_flight && loop.has_copy(i);
    order.push_back((copied ? iteration_in(l, loop.copy_of(i)) : state.iteration) - state.first);
    order.push_back(stage_.original(loop.driver));
    i = loop.driver;
  }
  std::reverse(order.begin(), order.end());
  return order;
}

// No iteration before those that it is in is under way.
bool Activation::is_oldest(uint32_t i) const {
  for (uint32_t l = stage_.loop_of(i); l != Stage::kNoLoop; l = stage_.loop_of(i)) {
    const Stage::Loop& loop = stage_.loops_[l];
    if (loops_[l].in_flight && loop.has_copy(i) &&
        iteration_in(l, loop.copy_of(i)) > oldest_open(l))
      return false;
    i = loop.driver;
  }
  return true;
}

bool Activation::is_inside(uint32_t i, size_t outer) const {
  uint32_t l = stage_.loop_of(i);
  while (l != Stage::kNoLoop && l != outer) l = stage_.loop_of(stage_.loops_[l].driver);
  return l == outer;
}

// An iteration has ended: what was put off may find memory now, the oldest first.
void Activation::try_again() {
  std::sort(put_off_.begin(), put_off_.end(),
            [this](uint32_t a, uint32_t b) { return order_of(a) > order_of(b); });
  for (uint32_t i : put_off_) make_ready(i);
  put_off_.clear();
  last_try_ = kNone;
  begins_again_ = false;
}

// A kernel of the step has left its lane. Below what is ready by now: that may make room.
void Activation::try_one_again() {
  for (size_t l = 0; l < loops_.size(); ++l)
    if (is_crowded(l)) return;  // an iteration has to end
  if (const uint32_t first = take_put_off(); first != kNone) make_ready(first);
}

// The first one that waits for no iteration before its own. kNone: each does.
uint32_t Activation::take_put_off() {
  auto first = put_off_.end();
  for (auto at = put_off_.begin(); at != put_off_.end(); ++at)
    if ((outstanding_ == 0 || is_oldest(*at)) &&
        (first == put_off_.end() || order_of(*at) < order_of(*first)))
      first = at;
  if (first == put_off_.end()) return kNone;
  const uint32_t i = *first;
  put_off_.erase(first);
  return i;
}

// Nothing of this step runs here, or is to, but what was put off. False: there may be room when
// what it waits for has come, calls or, for older iterations, anything.
bool Activation::make_room() {
  if (std::exchange(begins_again_, false)) {
    for (size_t l = 0; l < loops_.size(); ++l)
      if (is_crowded(l) && stage_.loops_[l].copies.repeatable) begin_again(l);
    try_again();
    return true;
  }
  if (calls_ > 0) return false;
  last_try_ = take_put_off();
  if (last_try_ == kNone) return false;
  make_ready(last_try_);
  return true;
}

// With its first iteration, and no other beside one from now on.
void Activation::begin_again(size_t l) {
  const Stage::Loop& loop = stage_.loops_[l];
  const Stage::Copies& copies = loop.copies;
  LoopState& state = loops_[l];
  const auto drop_copies = [this](const Stage::Copies& all) {
    const uint32_t end = all.slot_begin + all.count * all.slot_stride;
    for (uint32_t slot = all.slot_begin; slot < end; ++slot) drop(slot);
  };
  if (stage_.host_.warn)
    stage_.host_.warn(detail::concat(
        "no memory for several iterations, the loop begins again: loop=",
        stage_.name_of(loop.driver), " device=", stage_.device(), " run=", info_.run));
  std::erase_if(put_off_, [&](uint32_t i) { return is_inside(i, l); });
  for (size_t k = stage_.own_loops_; k < loops_.size(); ++k) {  // what loops in its copies have
    if (!loops_[k].running || !is_inside(stage_.loops_[k].driver, l)) continue;
    if (loops_[k].in_flight) drop_copies(stage_.loops_[k].copies);
    stop_weighing(k);
    loops_[k] = {};
  }
  drop_copies(copies);
  for (size_t k = 0; k < copies.saves.size(); ++k) saved_[copies.saves[k]].resize(state.saved[k]);
  iteration_bytes_[loop.origin].alone = state.inputs;
  state.in_flight = state.wanted = false;
  state.open = state.busy = 0;
  state.iteration = state.first - 1;
  for (const auto& [from, to] : loop.initial) next_values_.push_back(values_[from]);
  arm_iteration(l);
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
