// EarlyValues: news for runs that an executor has not armed yet: values of edges, and the word that
// a run is cancelled. Bounded by count and by bytes: a value beyond that is not dropped silently,
// its run fails as soon as it is armed.
//
// Owner: the run registry. Thread: one at a time, under its lock.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "actors/async/step_messages.hpp"
#include "actors/engine/step_result.hpp"

namespace troupe {

class EarlyValues {
 public:
  struct Limits {
    size_t values = 4096;  // a cut edge has at most one per step, or iteration, in flight
    int64_t bytes = int64_t{1} << 30;
    size_t runs = 8192;  // more than a session may have under way
  };
  struct Entry {
    std::vector<Deliver> values;  // one per edge and iteration, in the order of their coming
    StepResult ended;             // not ok: the run ends with this as soon as it is armed
  };

  EarlyValues() = default;
  explicit EarlyValues(Limits limits) : limits_(limits) {}

  // Keeps a value until its run is armed. `receiver`: the node it is for. Returns the number of the
  // run that had to be forgotten for it, the oldest, or -1.
  int64_t add(Deliver value, const std::string& receiver);
  // `run` ends with this as soon as it is armed; its values are not wanted. Returns as add().
  int64_t end(int64_t run, StepResult reason);
  // The run is being armed.
  Entry take(int64_t run);
  // No run before this one comes any more.
  void forget_before(int64_t run);

  size_t values() const { return values_; }
  int64_t bytes() const { return bytes_; }

 private:
  using Entries = std::map<int64_t, Entry>;
  int64_t make_room(int64_t run);
  void drop_values(Entry& entry);
  Entries::iterator erase(Entries::iterator it);

  Limits limits_;
  Entries entries_;  // by run
  size_t values_ = 0;
  int64_t bytes_ = 0;
};

}  // namespace troupe
