// Pending: the lists that other threads read, under their mutex.
#include "actors/engine/pending.hpp"

#include <algorithm>

#include "actors/engine/firing_jobs.hpp"

namespace troupe {

void Pending::arm(bool registered) {
  outstanding = program_.edges.awaited;
  stop_.store(false, std::memory_order_relaxed);
  stop_reason_ = {};
  if (!registered) return;
  const std::vector<Program::Receive>& receives = program_.edges.receives;
  for (size_t e = 0; e < receives.size(); ++e) received_[e] = receives[e].loop != kNone;
  std::lock_guard lock(mutex_);
  for (size_t e = 0; e < receives.size(); ++e) awaited_[e] = receives[e].loop == kNone;
}

void Pending::await(const std::vector<size_t>& edges) {
  outstanding += static_cast<int64_t>(edges.size());
  {
    std::lock_guard lock(mutex_);
    for (size_t e : edges) awaited_[e] = true;
  }
  for (size_t e : edges) received_[e] = false;
}

bool Pending::receive(size_t edge) {
  if (received_[edge]) return false;
  received_[edge] = true;
  std::lock_guard lock(mutex_);
  awaited_[edge] = false;
  return true;
}

void Pending::add_async(Firing node, std::shared_ptr<AsyncFiring> firing) {
  std::lock_guard lock(mutex_);
  async_[node] = std::move(firing);
}

void Pending::async_answered(Firing node) {
  // The owner alone changes the map, under the lock, so the owner may look without.
  const auto waited = async_.find(node);
  if (waited == async_.end()) return;
  std::lock_guard lock(mutex_);
  async_.erase(waited);
}

void Pending::abandon() {
  std::map<Firing, std::shared_ptr<AsyncFiring>> open;
  {
    std::lock_guard lock(mutex_);
    open = async_;
    for (size_t e = 0; e < awaited_.size(); ++e) awaited_[e] = false;
  }
  for (auto& [node, firing] : open)
    if (firing->abandon()) {
      --outstanding;
      async_answered(node);
    }
  for (size_t e = 0; e < received_.size(); ++e)
    if (!received_[e]) {
      received_[e] = true;
      --outstanding;
    }
}

void Pending::stop(Errc code, std::string text) {
  std::lock_guard lock(mutex_);
  if (stop_reason_.code == Errc::ok) stop_reason_ = {code, std::move(text)};
  stop_.store(true, std::memory_order_release);
}

StepResult Pending::stop_reason() const {
  std::lock_guard lock(mutex_);
  return stop_reason_;
}

void Pending::begins_on_lane(Firing node) {
  std::lock_guard lock(mutex_);
  on_lanes_.push_back(node);
}

void Pending::ends_on_lane(Firing node) {
  std::lock_guard lock(mutex_);
  on_lanes_.erase(std::find(on_lanes_.begin(), on_lanes_.end(), node));
}

std::vector<std::string> Pending::waiting_for() const {
  const auto name = [](Firing f) { return f.state->program.nodes.names[f.node]; };
  std::vector<std::string> out;
  std::lock_guard lock(mutex_);
  for (const auto& [node, firing] : async_) out.push_back(name(node));
  for (size_t e = 0; e < awaited_.size(); ++e)
    if (awaited_[e]) out.push_back(program_.edges.receives[e].name);
  for (const Firing& node : on_lanes_) out.push_back(name(node) + " (running)");
  return out;
}

}  // namespace troupe
