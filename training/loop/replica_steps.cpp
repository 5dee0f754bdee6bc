// Keeps the replicas in the order of their steps.
#include "training/loop/replica_steps.hpp"

#include <algorithm>

namespace troupe {

ReplicaSteps::ReplicaSteps(const std::vector<int64_t>& replicas,
                           const std::map<int64_t, int64_t>& next_steps) {
  for (const int64_t replica : replicas) {
    const auto it = next_steps.find(replica);
    const int64_t next = it == next_steps.end() ? 0 : it->second;
    places_[replica].next = next;
    order_.emplace(next, replica);
    waiting_.emplace(next, replica);
  }
}

void ReplicaSteps::go_to(int64_t replica, int64_t next) {
  Place& place = places_.at(replica);
  for (ByStep* table : {&order_, &waiting_}) {
    table->erase({place.next, replica});
    table->emplace(next, replica);
  }
  place.next = next;
}

void ReplicaSteps::begin(int64_t replica) {
  Place& place = places_.at(replica);
  place.running = true;
  waiting_.erase({place.next, replica});
  running_.emplace(place.next, replica);
}

void ReplicaSteps::end(int64_t replica) {
  Place& place = places_.at(replica);
  if (!std::exchange(place.running, false)) return;
  running_.erase({place.next, replica});
  waiting_.emplace(place.next, replica);
}

std::vector<int64_t> ReplicaSteps::all() const {
  std::vector<int64_t> out;
  for (const auto& [replica, place] : places_) out.push_back(replica);
  return out;
}

std::optional<int64_t> ReplicaSteps::slowest_running() const {
  if (running_.empty()) return std::nullopt;
  return running_.begin()->first;
}

int64_t ReplicaSteps::unbegun() const {
  const int64_t running = running_.empty() ? 0 : running_.rbegin()->first + 1;
  return std::max(farthest(), running);
}

std::vector<int64_t> ReplicaSteps::startable(int64_t stop, Backoff::Millis now) const {
  std::vector<int64_t> out;
  for (const auto& [next, replica] : waiting_) {
    ++looks_;
    if (next >= stop) break;
    if (places_.at(replica).record.retry.due(now)) out.push_back(replica);
  }
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace troupe
