// ProgressMeter: how far a training is, how fast, and how long it will take. It reports each step
// of the slowest replica once.
// Owner: train(). Thread: the training thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <utility>

#include "troupe/training.hpp"

namespace troupe {

class ProgressMeter {
 public:
  using Time = std::chrono::steady_clock::time_point;
  using Seconds = std::chrono::duration<double>;

  // `steps` 0: not known. `examples_per_step`: of all replicas together. Training begins `now`,
  // after `first` of `steps`.
  ProgressMeter(int64_t steps, int64_t examples_per_step, int64_t first, Time now)
      : steps_(steps), examples_per_step_(examples_per_step), first_(first), begin_(now) {}

  Seconds elapsed(Time now) const { return now - begin_; }
  // None if these steps were the last ones reported. `loss` is called otherwise.
  template <class Loss>
  std::optional<TrainProgress> next(int64_t done, const Loss& loss, Time now) {
    if (std::exchange(told_, done) == done) return std::nullopt;
    return at(done, loss(), now);
  }
  TrainProgress at(int64_t done, double loss, Time now) const {
    const double seconds = elapsed(now).count();
    const double rate = seconds > 0 ? static_cast<double>(done - first_) / seconds : 0;
    TrainProgress p;
    p.step = done;
    p.steps = steps_;
    p.loss = loss;
    p.examples_per_second = rate * static_cast<double>(examples_per_step_);
    p.remaining = Seconds(rate > 0 && steps_ > 0 ? static_cast<double>(steps_ - done) / rate : 0);
    return p;
  }

 private:
  const int64_t steps_, examples_per_step_, first_;
  const Time begin_;
  int64_t told_ = -1;
};

}  // namespace troupe
