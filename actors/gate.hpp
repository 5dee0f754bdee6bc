// Gate: lets the program's threads into a master, and lets the one who closes it wait until they
// have left. Prepared calls hold it, so it may outlive the master; then it is shut.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "troupe/error.hpp"

namespace troupe {

class Master;

// What is refused from then on.
inline constexpr char kSessionClosed[] = "the session is closed; make a new one";

class Gate {
 public:
  explicit Gate(Master& master) : master_(master) {}
  void shut() {
    std::lock_guard lock(mutex_);
    shut_ = true;
  }
  void wait_until_empty() {
    std::unique_lock lock(mutex_);
    left_.wait(lock, [this] { return visitors_.empty(); });
  }
  // The calling thread is inside: it is in a function of the program that a call of the session
  // calls, and would wait for itself.
  bool visited_by_me() {
    std::lock_guard lock(mutex_);
    return std::find(visitors_.begin(), visitors_.end(), std::this_thread::get_id()) !=
           visitors_.end();
  }

 private:
  friend class Visit;

  Master& master_;
  std::mutex mutex_;  // guards the rest
  std::condition_variable left_;
  std::vector<std::thread::id> visitors_;  // a thread as often as it has entered
  bool shut_ = false;
};

// A thread is inside as long as this lives, which it makes and destroys.
class Visit {
 public:
  // Throws: Error(cancelled) with `refusal` if the gate is shut.
  Visit(std::shared_ptr<Gate> gate, const char* refusal) : gate_(std::move(gate)) {
    std::lock_guard lock(gate_->mutex_);
    if (gate_->shut_) throw Error(Errc::cancelled, refusal);
    gate_->visitors_.push_back(std::this_thread::get_id());
  }
  ~Visit() {
    std::lock_guard lock(gate_->mutex_);
    auto& visitors = gate_->visitors_;
    visitors.erase(std::find(visitors.begin(), visitors.end(), std::this_thread::get_id()));
    if (visitors.empty()) gate_->left_.notify_all();
  }
  Visit(const Visit&) = delete;
  Master* operator->() const { return &gate_->master_; }

 private:
  const std::shared_ptr<Gate> gate_;
};

}  // namespace troupe
