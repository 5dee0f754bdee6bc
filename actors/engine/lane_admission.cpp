// LaneAdmission: the order in which costly nodes get memory. A lane that finds nothing to do
// meanwhile helps with the kernels that run.
#include "actors/engine/lane_admission.hpp"

#include <algorithm>
#include <utility>

namespace troupe {
namespace {

uint32_t order_of(const Firing& f) { return f.state->order_of(f.node); }

bool fires_before(const Firing& a, const Firing& b) {
  return std::pair{order_of(a), a.node} < std::pair{order_of(b), b.node};
}

}  // namespace

void LaneAdmission::arm() {
  waiting_.clear();
  on_their_way_.clear();
  ahead_ = kNone;
  put_off_.clear();
  last_try_ = {};
  jobs_ = 0;
}

void LaneAdmission::begin_job(Firing f) {
  const StepState& state = *f.state;
  const FiringNode& node = state.node(f.node);
  const uint32_t* in = state.program.inputs_of(node);
  ++jobs_;
  if (!program_.nodes.earliest.empty()) on_their_way_.push_back(f);
  batch_.push_back({f, node.in_place && state.uses[in[0]] == 1, state.observe});
}

void LaneAdmission::admit(Firing f) {
  const StepState& state = *f.state;
  const FiringNode& node = state.node(f.node);
  const auto takes_over = [&](uint32_t first) {  // and takes no memory beside that
    return state.uses[first] == 1 && state.values[first].byte_size() == node.view()->bytes;
  };
  if (state.program.earliest_of(f.node) == 0 ||
      (node.in_place && takes_over(*state.program.inputs_of(node))))
    return begin_job(f);
  waiting_.insert(std::upper_bound(waiting_.begin(), waiting_.end(), f, fires_before), f);
}

// The first of all nodes under way goes in any case, so one always does. One of the nodes after it
// at a time goes ahead: each alone finds memory. Nodes of iterations and calls never wait here.
void LaneAdmission::let_go() {
  constexpr size_t kLookedAt = 16;  // of many that wait
  uint32_t first = waiting_.front().node;
  for (const Firing& f : on_their_way_) first = std::min(first, order_of(f));
  for (const Firing& f : put_off_) first = std::min(first, order_of(f));
  if (ahead_ != kNone && ahead_ <= first) ahead_ = kNone;
  const auto go = [this](size_t at) {
    const Firing f = waiting_[at];
    waiting_.erase(waiting_.begin() + static_cast<ptrdiff_t>(at));
    begin_job(f);
  };
  if (waiting_.front().node == first) go(0);
  for (size_t at = 0; at < std::min(kLookedAt, waiting_.size()) && ahead_ == kNone; ++at)
    if (program_.earliest_of(waiting_[at].node) <= first) {
      ahead_ = waiting_[at].node;
      go(at);
    }
}

void LaneAdmission::job_ended(Firing f) {
  --jobs_;
  const auto at = std::find(on_their_way_.begin(), on_their_way_.end(), f);
  if (at == on_their_way_.end()) return;
  *at = on_their_way_.back();
  on_their_way_.pop_back();
}

void LaneAdmission::drop_all() {
  jobs_ -= static_cast<int64_t>(batch_.size());
  batch_.clear();
  put_off_.clear();
  waiting_.clear();
}

// False: nothing holds memory that will come back, so another try is in vain.
bool LaneAdmission::put_off(Firing f, bool others) {
  const bool was_alone = std::exchange(last_try_, {}) == f;
  if (!others && (was_alone || (jobs_ == 0 && put_off_.empty()))) return false;
  put_off_.push_back(f);
  return true;
}

Firing LaneAdmission::take_put_off() {
  const auto first = std::min_element(put_off_.begin(), put_off_.end(), fires_before);
  const Firing f = *first;
  put_off_.erase(first);
  return f;
}

Firing LaneAdmission::fire_alone() { return last_try_ = take_put_off(); }

}  // namespace troupe
