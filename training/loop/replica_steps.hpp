// ReplicaSteps: the step that each replica of a training is at, and which of them run it. An event
// of one replica costs the logarithm of their number: those that wait at a barrier are not looked
// at.
// Owner: TrainLoop. Thread: the owner's.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "actors/async/backoff.hpp"
#include "troupe/error.hpp"

namespace troupe {

class ReplicaSteps {
 public:
  // The failures and the loss of a replica; its place is in the tables below.
  struct Record {
    Backoff retry;                // of its step
    std::optional<Error> failed;  // the newest failure of its step
    std::optional<double> loss;
  };

  // Replicas that `next_steps` lacks begin at step 0.
  ReplicaSteps(const std::vector<int64_t>& replicas, const std::map<int64_t, int64_t>& next_steps);

  int64_t next(int64_t replica) const { return places_.at(replica).next; }
  Record& record(int64_t replica) { return places_.at(replica).record; }
  const Record& record(int64_t replica) const { return places_.at(replica).record; }
  // Requires: the replica does not run.
  void go_to(int64_t replica, int64_t next);
  void begin(int64_t replica);  // its step
  void end(int64_t replica);

  std::vector<int64_t> all() const;  // in ascending order
  int64_t slowest() const { return order_.begin()->first; }
  int64_t farthest() const { return order_.rbegin()->first; }
  bool run() const { return !running_.empty(); }  // one of them at least
  std::optional<int64_t> slowest_running() const;
  // The first step that no replica has begun.
  int64_t unbegun() const;
  // In ascending order: those that may begin a step before `stop` now.
  std::vector<int64_t> startable(int64_t stop, Backoff::Millis now) const;

  int64_t looks() const { return looks_; }  // at replicas, one by one; for tests of their cost

 private:
  struct Place {
    int64_t next = 0;
    bool running = false;
    Record record;
  };
  using ByStep = std::set<std::pair<int64_t, int64_t>>;  // (next step, replica)

  std::map<int64_t, Place> places_;
  ByStep order_, running_, waiting_;  // all; and the two parts of them
  mutable int64_t looks_ = 0;
};

}  // namespace troupe
