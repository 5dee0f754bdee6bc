// ShardImage: the state of a shard at one step, as a checkpoint holds it.
// Owner: a value; tensors are shared with the shard, and frozen. Thread: any.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "training/parameters/layout.hpp"
#include "training/rules/row_image.hpp"
#include "training/rules/rule.hpp"
#include "troupe/training.hpp"

namespace troupe {

// One slice at one version.
struct SliceState {
  Slice slice;
  int64_t version = 0;  // updates applied since the initial values; never goes back within an epoch
  int64_t next_step = 0;  // of the slowest replica
  Tensor values;          // [slice.elements()]
  // By name, each [slice.elements()].
  std::vector<std::pair<std::string, Tensor>> optimizer_accumulators;
  std::optional<RowImage> rows = {};      // of a table
  int64_t accumulators_since = 0;         // SliceValues::accumulators_since
  std::vector<ReplicaProgress> progress;  // by replica; empty for an untrained slice
};

// All slices of one shard, consistently at one step.
struct ShardImage {
  uint64_t epoch = 0;
  int64_t step = 0;  // as asked for
  Aggregation rule = Aggregation::sync;
  std::vector<SliceState> slices;  // by slice id
};

}  // namespace troupe
