// Gate: counts the program's threads inside a master, and lets the closing thread wait until they
// have left. Prepared calls hold the gate, so it may outlive the master; then it is shut.
//
// The count is split over cache lines, one per thread: a single counter would cost more than a
// short run.
// Owner: the master and its prepared calls share it. Thread: any.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>

#include "devices/threads/thread_index.hpp"
#include "troupe/error.hpp"

namespace troupe {

class Master;

// The refusal of calls after shut().
inline constexpr char kSessionClosed[] = "the session is closed; make a new one";

class Gate {
 public:
  explicit Gate(Master& master) : master_(master) {}
  // A visitor counts itself before it reads `shut_`; shut() sets `shut_` before the count is read.
  // So at least one of the two sees the other.
  void shut() { shut_.store(true, std::memory_order_seq_cst); }
  void wait_until_empty() {  // after shut()
    std::unique_lock lock(mutex_);
    left_.wait(lock, [this] { return inside_.sum(std::memory_order_seq_cst) == 0; });
  }
  // True if the calling thread is inside: it runs a function of the program that a call of the
  // session has called, and would wait for itself.
  bool visited_by_me() const;
  class Visit;

 private:
  bool enter() {
    inside_.add(1, std::memory_order_seq_cst);
    if (!shut_.load(std::memory_order_seq_cst)) [[likely]]
      return true;
    leave();
    return false;
  }
  void leave() {
    inside_.add(-1, std::memory_order_seq_cst);
    if (!shut_.load(std::memory_order_seq_cst)) [[likely]]
      return;
    std::lock_guard lock(mutex_);  // so the waiting thread either has not looked yet, or sleeps
    left_.notify_all();
  }

  static inline constinit thread_local const Visit* innermost = nullptr;  // of this thread

  Master& master_;
  Tally inside_;
  std::atomic<bool> shut_{false};
  std::mutex mutex_;  // guards left_
  std::condition_variable left_;
};

// Its thread is inside while it lives. Made and destroyed by the same thread.
class Gate::Visit {
 public:
  // Throws: Error(cancelled) with `refusal` if the gate is shut.
  Visit(std::shared_ptr<Gate> gate, const char* refusal) : Visit(*gate, refusal) {
    kept_ = std::move(gate);
  }
  // For a gate that another owner keeps for as long.
  Visit(Gate& gate, const char* refusal) : gate_(gate), outer_(innermost) {
    if (!gate.enter()) throw Error(Errc::cancelled, refusal);
    innermost = this;
  }
  ~Visit() {
    for (const Visit** at = &innermost; *at; at = &(*at)->outer_)
      if (*at == this) {
        *at = outer_;
        break;
      }
    gate_.leave();
  }
  Visit(const Visit&) = delete;
  Master* operator->() const { return &gate_.master_; }
  const Gate& gate() const { return gate_; }
  const Visit* outer() const { return outer_; }  // of the same thread, around this one

 private:
  Gate& gate_;
  mutable const Visit* outer_;
  std::shared_ptr<Gate> kept_;
};

inline bool Gate::visited_by_me() const {
  for (const Visit* visit = innermost; visit; visit = visit->outer())
    if (&visit->gate() == this) return true;
  return false;
}

}  // namespace troupe
