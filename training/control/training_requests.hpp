// TrainingRequests: the way of requests of any thread to the training that runs: for another rule
// or rate scale, and for its state. While the training thread is in a function of the program, the
// state of that moment is the answer.
// Owner: the parameter group. Thread: any.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "training/control/messages.hpp"
#include "troupe/training.hpp"

namespace troupe {

// Another rule, or another rate scale, from a step on.
struct TermChange {
  std::optional<Aggregation> rule;
  double rate_scale = 1;  // without a rule
  int64_t step = 0;
};

class TrainingRequests {
 public:
  // Called once, by any thread, or dropped with the training: the step from which a change is going
  // to hold; an error if the training ends before.
  using Taken = std::function<void(Errc, const std::string& text, int64_t from)>;
  using Then = std::function<void(const TrainingTold&)>;
  // A training, called by the threads that ask.
  struct Training {
    // Throws: Error(invalid_argument) for a change that cannot be.
    std::function<void(const TermChange&, Taken)> change;
    std::function<void(Then)> ask;
  };

  void begin(Training training, TrainingTold state) {
    std::lock_guard lock(mutex_);
    training_ = std::move(training);
    state_ = std::move(state);
    ++number_;
  }
  // The functions are not called any more. `last`: the state at the end. Also twice.
  void end(TrainingTold last) {
    std::lock_guard lock(mutex_);
    if (!training_) return;
    training_.reset();
    state_ = std::move(last);
  }
  // The training thread is busy, and in this state, until it goes on.
  void rest(TrainingTold state) {
    std::lock_guard lock(mutex_);
    state_ = std::move(state);
  }
  void go_on() {
    std::lock_guard lock(mutex_);
    if (training_) state_.reset();
  }

  // False: nothing trains. Throws: as Training::change.
  bool change(const TermChange& change, Taken taken) const {
    std::lock_guard lock(mutex_);
    if (training_) training_->change(change, std::move(taken));
    return training_.has_value();
  }
  // Without a training the answer is the state at the end of the last one, with no phase.
  void ask(const Then& then) const {
    std::lock_guard lock(mutex_);
    const auto numbered = [then, number = number_](TrainingTold state) {
      state.training = number;
      then(state);
    };
    if (training_ && !state_)
      training_->ask(numbered);
    else
      numbered(state_.value_or(TrainingTold{}));
  }
  int64_t number() const {  // of trainings that have begun
    std::lock_guard lock(mutex_);
    return number_;
  }

 private:
  mutable std::mutex mutex_;  // guards the rest
  std::optional<Training> training_;
  std::optional<TrainingTold> state_;
  int64_t number_ = 0;
};

}  // namespace troupe
