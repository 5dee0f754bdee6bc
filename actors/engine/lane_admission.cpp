// LaneAdmission: the order in which costly nodes get memory. A lane that finds nothing to do
// meanwhile helps with the kernels that run.
#include "actors/engine/lane_admission.hpp"

#include <algorithm>
#include <utility>

namespace troupe {

void LaneAdmission::arm() {
  waiting_.clear();
  on_their_way_.clear();
  ahead_ = kNone;
  put_off_.clear();
  last_try_ = kNone;
  jobs_ = 0;
  calls_ = 0;
}

void LaneAdmission::begin_job(uint32_t i) {
  const FiringNode& node = state_.node(i);
  const uint32_t* in = state_.program.inputs_of(node);
  ++jobs_;
  if (!state_.program.nodes.earliest.empty()) on_their_way_.push_back(i);
  batch_.push_back({i, node.in_place && state_.uses[in[0]] == 1, state_.observe});
}

void LaneAdmission::admit(uint32_t i) {
  const FiringNode& node = state_.node(i);
  const auto takes_over = [&](uint32_t first) {  // and takes no memory beside that
    return state_.uses[first] == 1 && state_.values[first].byte_size() == node.view()->bytes;
  };
  if (state_.program.earliest_of(i) == 0 ||
      (node.in_place && takes_over(*state_.program.inputs_of(node))))
    return begin_job(i);
  waiting_.insert(std::upper_bound(waiting_.begin(), waiting_.end(), i), i);
}

// The first of all nodes under way goes in any case, so one always does. One of the nodes after it
// at a time goes ahead: each alone finds memory.
void LaneAdmission::let_go() {
  constexpr size_t kLookedAt = 16;  // of many that wait
  uint32_t first = waiting_.front();
  for (uint32_t i : on_their_way_) first = std::min(first, i);
  for (uint32_t i : put_off_) first = std::min(first, i);
  if (ahead_ != kNone && ahead_ <= first) ahead_ = kNone;
  const auto go = [this](size_t at) {
    const uint32_t i = waiting_[at];
    waiting_.erase(waiting_.begin() + static_cast<ptrdiff_t>(at));
    begin_job(i);
  };
  if (waiting_.front() == first) go(0);
  for (size_t at = 0; at < std::min(kLookedAt, waiting_.size()) && ahead_ == kNone; ++at)
    if (state_.program.earliest_of(waiting_[at]) <= first) {
      ahead_ = waiting_[at];
      go(at);
    }
}

void LaneAdmission::job_ended(uint32_t i) {
  --jobs_;
  const auto at = std::find(on_their_way_.begin(), on_their_way_.end(), i);
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
bool LaneAdmission::put_off(uint32_t i) {
  const bool was_alone = std::exchange(last_try_, kNone) == i;
  if (calls_ == 0 && (was_alone || (jobs_ == 0 && put_off_.empty()))) return false;
  put_off_.push_back(i);
  return true;
}

uint32_t LaneAdmission::take_put_off() {
  const auto first = std::min_element(put_off_.begin(), put_off_.end());
  const uint32_t i = *first;
  put_off_.erase(first);
  return i;
}

uint32_t LaneAdmission::fire_alone() {
  if (calls_ > 0) return kNone;
  last_try_ = take_put_off();
  return last_try_;
}

}  // namespace troupe
