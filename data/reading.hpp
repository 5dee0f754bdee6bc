// Reading: the work of threads on one source as other threads see it: when it moved last, and a way
// to stop it. Readers report each record, and each block of bytes, without knowing for whom.
// Owner: a StepReader. Thread: any.
#pragma once

#include <atomic>
#include <chrono>

namespace troupe {

class Reading {
 public:
  using Clock = std::chrono::steady_clock;

  // While it lives, its thread works for `reading`.
  class Scope {
   public:
    explicit Scope(Reading& reading);
    ~Scope();
    Scope(const Scope&) = delete;

   private:
    Reading* const before_;
  };

  // The calling thread has read something. Throws: Error(cancelled) if it works for a Reading that
  // was stopped.
  static void moved();

  void stop() { stopped_ = true; }
  bool stopped() const { return stopped_; }
  void touch();  // it moved just now, or begins
  Clock::time_point last() const { return Clock::time_point(Clock::duration(last_.load())); }

 private:
  std::atomic<bool> stopped_{false};
  std::atomic<Clock::rep> last_{Clock::now().time_since_epoch().count()};
};

}  // namespace troupe
