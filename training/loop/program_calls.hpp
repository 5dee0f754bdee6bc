// ProgramCalls: calls of the program's own functions in a training. The first exception of one is
// kept, for train() to throw when all towers have stopped; no function is called after it.
//
// Owner: Trainer. Thread: the training thread.
#pragma once

#include <exception>
#include <functional>
#include <string>
#include <utility>

#include "troupe/training.hpp"

namespace troupe {

class ProgramCalls {
 public:
  // `on_throw`: called once, after the first exception.
  ProgramCalls(const TrainOptions& options, std::function<void()> on_throw)
      : options_(options), on_throw_(std::move(on_throw)) {}

  template <class F>
  void call(const F& f) {
    if (thrown_) return;
    try {
      f();
    } catch (...) {  // any type: the exception is the program's
      thrown_ = std::current_exception();
      on_throw_();
    }
  }
  void tell(TrainEvent::Kind kind, const std::string& text) {
    if (options_.on_event) call([&] { options_.on_event({kind, text}); });
  }
  bool threw() const { return thrown_ != nullptr; }
  void rethrow() const {
    if (thrown_) std::rethrow_exception(thrown_);
  }

 private:
  const TrainOptions& options_;
  const std::function<void()> on_throw_;
  std::exception_ptr thrown_;
};

}  // namespace troupe
