// WrittenValues: a program's own writes to a slice that is not trained. Under the synchronous rule
// a step that is done again reads the same values as the first time, and its writes count once.
// Owner: HeldSlice. Thread: that of Shard's caller.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "training/parameters/messages.hpp"
#include "training/rules/rule.hpp"
#include "training/rules/update.hpp"

namespace troupe {

class WrittenValues {
 public:
  // `begins`: writes of earlier steps are in the values.
  explicit WrittenValues(int64_t begins = 0) : begins_(begins) {}

  // The reason why nobody knows if this write has changed the values before: its step is too old.
  // Empty: has() knows.
  std::string too_old(const Push& push, const Aggregation& rule);
  bool has(const Push& push);  // Requires: too_old() is empty.
  // Another replica that has written, if it excludes this one.
  std::optional<int32_t> other_writer(const Push& push, const Aggregation& rule) const;
  // Changes the values, a copy of them if others hold them, and makes a version. Returns whether it
  // was done in place. Requires: !has(push).
  bool write(const Push& push, const Aggregation& rule, SliceValues& values);

  // The values that `step` of a replica may read.
  AggregationRule::PullVerdict verdict(int32_t replica, int64_t step, const Aggregation& rule,
                                       const Slice& slice) const;
  int64_t version_before() const { return before_version_; }
  bool has_before() const { return before_.defined(); }
  // The values before the writes of the newest step. Requires: verdict() said previous.
  const Tensor& before(const Tensor& values);

 private:
  void keep_before(const Push& push, const Aggregation& rule, const SliceValues& values);
  ReplicaProgress& done_by(const Push& push);

  int64_t begins_;
  int64_t step_ = -1;                                            // the newest that wrote
  int32_t replica_ = -1;                                         // its replica
  std::map<std::pair<int32_t, int64_t>, ReplicaProgress> done_;  // by replica and number
  // The values before the writes of `step_`: whole, or as rows to put back, last to first.
  int64_t before_version_ = 0;
  Tensor before_;
  std::vector<Gradient> undo_;
};

}  // namespace troupe
