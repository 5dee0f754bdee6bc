// RunRegistry: the running steps of an executor by the number of their run, for what comes from
// elsewhere: values of edges, and the word that a run is cancelled. Such news may come before its
// run begins, and waits; or after its run has ended, and is dropped.
//
// Owner: the executor. Thread: any.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "actors/engine/early_values.hpp"
#include "actors/engine/step.hpp"

namespace troupe {

class RunRegistry {
 public:
  // `warn` gets a line for a person, naming `device`.
  RunRegistry(std::string device, std::function<void(const std::string&)> warn)
      : device_(std::move(device)), warn_(std::move(warn)) {}

  // The step is armed; news that came early is handed in.
  void begin(const StepPtr& step);
  void end(int64_t run);
  // A value for the node `receiver`.
  void deliver(Deliver message, const std::string& receiver);
  // `may_come`: a run that has not begun ends as soon as it is armed.
  void cancel(int64_t run, bool may_come, Errc code, const std::string& text);
  // Runs before this one are over, here and everywhere.
  void forget_before(int64_t run);

  std::vector<int64_t> runs() const;
  StepPtr find(int64_t run) const;  // null if there is none

 private:
  // The registry remembers which runs have ended by their number modulo this. News for a run that
  // was forgotten waits as if it were early, until forget_before().
  static constexpr int64_t kEndedMemory = 4096;
  static constexpr int64_t kForgottenSaid = 4096;  // one line for so many
  // Requires of both: mutex_.
  bool has_ended(int64_t run) const {
    return run < oldest_ || ended_[static_cast<uint64_t>(run) % kEndedMemory] == run;
  }
  void forgot(int64_t run);

  const std::string device_;
  const std::function<void(const std::string&)> warn_;
  mutable std::mutex mutex_;  // guards the rest
  std::unordered_map<int64_t, StepPtr> runs_;
  EarlyValues early_;
  int64_t forgotten_ = 0;  // early runs that found no place
  int64_t oldest_ = 0;     // no run before it comes any more
  std::vector<int64_t> ended_ =
      std::vector<int64_t>(kEndedMemory, -1);  // run % kEndedMemory -> run
};

}  // namespace troupe
