// SliceReaders: the version of one slice that each replica has read, and the steps that are over.
// Owner: a HeldSlice. Thread: the shard's.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "training/rules/rule.hpp"
#include "training/shards/shard_counters.hpp"

namespace troupe {

class SliceReaders {
 public:
  void pulled(int32_t replica, int64_t version) { replicas_[replica].pulled_version = version; }
  // The replica does no step before `first` again.
  void ended_before(int32_t replica, int64_t first) {
    int64_t& known = replicas_[replica].first;
    known = std::max(known, first);
  }
  // Another process has the replica, and may do earlier steps. Its pushes follow pulls of its own.
  void begins_anew(int32_t replica) {
    replicas_[replica].first = 0;
    waited_for_ = {};
  }
  void clear() {
    replicas_.clear();
    waited_for_ = {};
  }
  // Steps are counted by another rule.
  void count_steps_anew() {
    for (auto& [replica, reads] : replicas_) reads.first = 0;
    waited_for_ = {};
  }
  // True if none of these replicas does a step before `step` again. Looks at each of them once for
  // each step.
  bool are_past(int64_t step, const std::set<int32_t>& replicas) {
    if (waited_for_.step != step) waited_for_ = {step, INT32_MIN};
    for (auto it = replicas.lower_bound(waited_for_.replica); it != replicas.end(); ++it)
      if (replicas_[*it].first < step) {
        waited_for_.replica = *it;
        return false;
      }
    return true;
  }
  // Adds the staleness of an update of `version` from these; returns that of the last one.
  int64_t note_staleness(const std::vector<Contribution>& gradients, int64_t version,
                         Staleness& all) {
    int64_t newest = 0;
    for (const Contribution& c : gradients)
      if (const int64_t pulled = replicas_[c.replica].pulled_version; pulled >= 0) {
        newest = version - pulled;
        all.add(newest);
      }
    return newest;
  }

 private:
  struct Reads {
    int64_t pulled_version = -1;
    int64_t first = 0;  // earlier steps are over
  };
  std::map<int32_t, Reads> replicas_;
  struct {
    int64_t step = -1;
    int32_t replica = 0;  // the first one that may do a step before it again
  } waited_for_;
};

}  // namespace troupe
