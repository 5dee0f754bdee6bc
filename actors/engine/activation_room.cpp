// Implements the turns of actors/engine/activation.hpp: a costly node goes to a lane as soon as it
// is ready, unless the step would take more memory so than one thread would that fires nodes in the
// order of their numbers (placement/memory_plan.hpp: earliest_firings()). A lane that finds nothing
// to do meanwhile helps with the kernels that run.
#include <algorithm>
#include <utility>

#include "actors/engine/firing_jobs.hpp"

namespace troupe {

void Activation::to_lane(uint32_t i, const FiringNode& node) {
  // "In place" is decided here, by the owner: a lane reads no counts.
  const uint32_t* in = input_slots(node);
  ++outstanding_;
  ++jobs_;
  if (!stage_.program_.nodes.earliest.empty()) on_their_way_.push_back(i);
  batch_.emplace_back(
      new LaneJob(ActivationPtr{this}, i, node.in_place && uses_[in[0]] == 1, observe_));
}

void Activation::wait_for_room(uint32_t i, const FiringNode& node) {
  const auto takes_over = [&](uint32_t first) {  // and no memory beside that
    return uses_[first] == 1 && values_[first].byte_size() == node.view->bytes;
  };
  if (stage_.program_.earliest_of(i) == 0 || (node.in_place && takes_over(*input_slots(node))))
    return to_lane(i, node);
  waiting_.insert(std::upper_bound(waiting_.begin(), waiting_.end(), i), i);
}

// The first of all nodes that are under way has its turn in any case, so something always is. Of
// those after it one at a time is let ahead: each alone finds room.
void Activation::let_go() {
  constexpr size_t kLookedAt = 16;  // of many that wait
  uint32_t first = waiting_.front();
  for (uint32_t i : on_their_way_) first = std::min(first, i);
  for (uint32_t i : put_off_) first = std::min(first, i);
  if (ahead_ != kNone && ahead_ <= first) ahead_ = kNone;
  const auto go = [this](size_t at) {
    const uint32_t i = waiting_[at];
    waiting_.erase(waiting_.begin() + static_cast<ptrdiff_t>(at));
    to_lane(i, stage_.program_.nodes.firing[i]);
  };
  if (waiting_.front() == first) go(0);
  for (size_t at = 0; at < std::min(kLookedAt, waiting_.size()) && ahead_ == kNone; ++at)
    if (stage_.program_.earliest_of(waiting_[at]) <= first) {
      ahead_ = waiting_[at];
      go(at);
    }
}

void Activation::off_lane(uint32_t i) {
  const auto at = std::find(on_their_way_.begin(), on_their_way_.end(), i);
  if (at == on_their_way_.end()) return;
  *at = on_their_way_.back();
  on_their_way_.pop_back();
}

// A node has found no memory. True: it is fired again when there may be more, as kernels on lanes
// or calls hold some now, or nodes before it were put off.
bool Activation::put_off(uint32_t i) {
  const bool last_try = std::exchange(last_try_, kNone) == i;  // nothing ran beside it
  if (stopped()) return false;
  if (calls_ == 0 && (last_try || (jobs_ == 0 && put_off_.empty()))) return false;
  put_off_.push_back(i);
  return true;
}

// The node that one thread would fire first.
uint32_t Activation::take_put_off() {
  const auto first = std::min_element(put_off_.begin(), put_off_.end());
  const uint32_t i = *first;
  put_off_.erase(first);
  return i;
}

// A kernel of the step has left its lane. The node goes below what is ready by now: that may make
// room.
void Activation::try_one_again() { make_ready(take_put_off()); }

// Nothing of this step runs here, or is to, but what was put off. False: there may be room when
// the calls under way have ended.
bool Activation::make_room() {
  if (calls_ > 0) return false;
  last_try_ = take_put_off();
  make_ready(last_try_);
  return true;
}

}  // namespace troupe
