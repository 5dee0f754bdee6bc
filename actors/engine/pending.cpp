// Pending: the lists that other threads read, under their mutex.
#include "actors/engine/pending.hpp"

#include <algorithm>

#include "actors/engine/firing_jobs.hpp"
#include "actors/engine/step.hpp"

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

void Pending::add_async(uint32_t node, std::shared_ptr<AsyncFiring> firing) {
  std::lock_guard lock(mutex_);
  async_[node] = std::move(firing);
}

void Pending::async_answered(uint32_t node) {
  // The owner alone changes the map, under the lock, so the owner may look without.
  const auto waited = async_.find(node);
  if (waited == async_.end()) return;
  std::lock_guard lock(mutex_);
  async_.erase(waited);
}

void Pending::abandon() {
  std::unordered_map<uint32_t, std::shared_ptr<AsyncFiring>> open;
  {
    std::lock_guard lock(mutex_);
    open = async_;
    for (size_t e = 0; e < awaited_.size(); ++e) awaited_[e] = false;
  }
  for (auto& [node, firing] : open)
    if (firing->abandon()) {
      --outstanding;
      std::lock_guard lock(mutex_);
      async_.erase(node);
    }
  for (size_t e = 0; e < received_.size(); ++e)
    if (!received_[e]) {
      received_[e] = true;
      --outstanding;
    }
}

void Pending::stop(Errc code, std::string text) {
  std::lock_guard lock(mutex_);
  const bool first = stop_reason_.code == Errc::ok;
  if (first) stop_reason_ = {code, std::move(text)};
  stop_.store(true, std::memory_order_release);
  if (first)
    for (Step* call : calls_) call->post(std::make_unique<Arrival>());
}

StepResult Pending::stop_reason() const {
  std::lock_guard lock(mutex_);
  return stop_reason_;
}

void Pending::begins_on_lane(uint32_t node) {
  std::lock_guard lock(mutex_);
  on_lanes_.push_back(node);
}

void Pending::ends_on_lane(uint32_t node) {
  std::lock_guard lock(mutex_);
  on_lanes_.erase(std::find(on_lanes_.begin(), on_lanes_.end(), node));
}

void Pending::add_call(Step* call) {
  std::lock_guard lock(mutex_);
  calls_.insert(call);
}

void Pending::remove_call(Step* call) {
  std::lock_guard lock(mutex_);
  calls_.erase(call);
}

std::vector<std::string> Pending::waiting_for() const {
  const std::vector<std::string>& names = program_.nodes.names;
  std::vector<std::string> out;
  std::lock_guard lock(mutex_);
  for (const auto& [node, firing] : async_) out.push_back(names[node]);
  for (size_t e = 0; e < awaited_.size(); ++e)
    if (awaited_[e]) out.push_back(names[program_.edges.receives[e].node]);
  for (uint32_t node : on_lanes_) out.push_back(names[node] + " (running)");
  for (Step* call : calls_)
    for (std::string& node : call->waiting_for()) out.push_back(std::move(node));
  return out;
}

}  // namespace troupe
