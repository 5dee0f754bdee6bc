// Gate: lets the program's threads into a master, and lets the one who closes it wait until they
// have left. Prepared calls hold it, so it may outlive the master; then it is shut.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>

#include "troupe/error.hpp"

namespace troupe {

class Master;

class Gate {
 public:
  explicit Gate(Master& master) : master_(master) {}
  void shut() {
    std::lock_guard lock(mutex_);
    shut_ = true;
  }
  void wait_until_empty() {
    std::unique_lock lock(mutex_);
    left_.wait(lock, [this] { return visits_ == 0; });
  }

 private:
  friend class Visit;

  Master& master_;
  std::mutex mutex_;  // guards the rest
  std::condition_variable left_;
  int visits_ = 0;
  bool shut_ = false;
};

// A thread is inside as long as this lives.
class Visit {
 public:
  // Throws: Error(cancelled) with `refusal` if the gate is shut.
  Visit(std::shared_ptr<Gate> gate, const char* refusal) : gate_(std::move(gate)) {
    std::lock_guard lock(gate_->mutex_);
    if (gate_->shut_) throw Error(Errc::cancelled, refusal);
    ++gate_->visits_;
  }
  ~Visit() {
    std::lock_guard lock(gate_->mutex_);
    if (--gate_->visits_ == 0) gate_->left_.notify_all();
  }
  Visit(const Visit&) = delete;
  Master* operator->() const { return &gate_->master_; }

 private:
  const std::shared_ptr<Gate> gate_;
};

}  // namespace troupe
