// RateScale: the rate scale of a session's parameters as its program knows it: the one that the
// shards have, and another that a pause of a training asks for. That one counts once the pause has
// ended and all shards have it. A pause that fails, or is repeated without a new epoch, finds the
// one of before.
// Owner: the group. Thread: any; a pause: the thread that trains.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

namespace troupe {

class RateScale {
 public:
  double now() const {  // the one that was asked for, if there is one
    std::lock_guard lock(mutex_);
    return asked_.value_or(in_pause() ? before_ : shards_);
  }
  void begin_pause(int64_t step) {
    std::lock_guard lock(mutex_);
    if (std::exchange(step_, step) != step) before_ = shards_;
    pause_ = std::this_thread::get_id();
  }
  // False if this thread is not in a pause.
  bool ask(double scale) {
    std::lock_guard lock(mutex_);
    if (pause_ != std::this_thread::get_id()) return false;
    asked_ = scale;
    return true;
  }
  // Returns the scale to send to the shards; none: they have it.
  std::optional<double> end_pause() {
    std::lock_guard lock(mutex_);
    const double scale = asked_.value_or(before_);
    leave();
    if (scale == shards_ && sure_) return std::nullopt;
    return scale;
  }
  void drop_pause() {  // it has failed
    std::lock_guard lock(mutex_);
    leave();
  }
  // Shards are being told another one: until told(), some may have it and others not.
  void begin_telling() {
    std::lock_guard lock(mutex_);
    sure_ = false;
  }
  void told(double scale) {  // all shards have it
    std::lock_guard lock(mutex_);
    shards_ = scale;
    sure_ = true;
  }
  void begin_epoch(double scale) {  // with it on all shards
    told(scale);
    std::lock_guard lock(mutex_);
    step_ = -1;
  }

 private:
  bool in_pause() const { return pause_ != std::thread::id(); }
  void leave() {
    pause_ = {};
    asked_.reset();
  }

  mutable std::mutex mutex_;  // guards the rest
  double shards_ = 1;
  bool sure_ = true;       // that all shards have it
  std::thread::id pause_;  // the thread that is in a pause; none: no one
  int64_t step_ = -1;      // of the newest pause
  double before_ = 1;      // when that pause began for the first time
  std::optional<double> asked_;
};

}  // namespace troupe
