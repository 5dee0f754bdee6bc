// Keeps the list of members that leave.
#include "actors/cluster/departures.hpp"

#include <utility>

namespace troupe {

void Departures::set_taker(std::function<void()> told) {
  std::lock_guard lock(mutex_);
  taker_ = std::move(told);
  if (taker_) return;
  for (auto& [task, waits] : leaving_) waits = false;
}

bool Departures::leaves(const std::string& task) {
  std::function<void()> told;
  {
    std::lock_guard lock(mutex_);
    const auto [known, is_new] = leaving_.try_emplace(task, taker_ != nullptr);
    if (!is_new || !taker_) return known->second;
    told = taker_;
  }
  told();
  return true;
}

void Departures::let_go(const std::string& task) {
  std::lock_guard lock(mutex_);
  if (const auto known = leaving_.find(task); known != leaving_.end()) known->second = false;
}

void Departures::forget(const std::string& task) {
  std::lock_guard lock(mutex_);
  leaving_.erase(task);
}

std::set<std::string> Departures::leaving() const {
  std::lock_guard lock(mutex_);
  std::set<std::string> out;
  for (const auto& [task, waits] : leaving_) out.insert(task);
  return out;
}

}  // namespace troupe
