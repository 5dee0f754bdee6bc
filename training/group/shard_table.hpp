// ShardTable: the shards that hold a session's parameters, the tasks they live on, and their epoch.
// Plain state, read and changed by the group's parts (shard_requests, shard_maker, route_sender,
// checkpoint_taker).
// Owner: the actor of a ParameterGroup. Thread: that actor's.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "training/parameters/layout.hpp"
#include "training/parameters/messages.hpp"
#include "troupe/training.hpp"

namespace troupe {

struct ShardTable {
  struct Entry {
    std::string task;
    uint64_t door = 0;    // the shard actor; 0: not made yet
    bool usable = false;  // it has its first values: requests and epochs are for usable shards only
    std::vector<Slice> slices;
  };

  std::string container;
  uint64_t epoch = 1;
  uint64_t began = 0;  // the newest one that was begun in whole, or followed to; 0: none
  Aggregation rule = Aggregation::sync;
  double rate_scale = 1;
  bool skips_bad = false;           // gradients that are not finite
  Compression compression;          // of this session's gradients, and of the values it pulls
  std::map<int32_t, Entry> shards;  // by number
  std::vector<std::string> tasks;   // that hold shards, round-robin; set before the first add()

  // Lays these parameters out over `count` new shards (0: one per task), and returns the numbers of
  // those that got slices, ascending. The layout stays when making the shards fails: a retry uses
  // the same layout, so that shards which a process has already made still fit.
  std::vector<int32_t> add(const std::vector<ParameterSpec>& parameters, int count);
  void use(const std::vector<int32_t>& numbers);  // marks them as having their first values
  bool usable(const std::vector<int32_t>& numbers) const;

  // Usable shards only:
  std::vector<int32_t> numbers() const;
  bool lives_on(const std::string& task) const;  // true if one of them does
  RouteParameters routes(uint64_t session) const;

 private:
  uint32_t next_slice_ = 0;
};

}  // namespace troupe
