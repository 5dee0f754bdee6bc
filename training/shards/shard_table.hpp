// ShardTable: which shards the parameters of a session are in, where those live, and in which epoch
// they are. Plain state; its owner is the actor of a ParameterGroup, whose rooms (shard_orders,
// shard_maker, route_sender, checkpoint_taker) read and change it there.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "training/parameters/layout.hpp"
#include "training/parameters/messages.hpp"
#include "troupe/trainer.hpp"

namespace troupe {

struct ShardTable {
  struct Entry {
    std::string task;
    uint64_t door = 0;    // the shard actor; 0: not made yet
    bool usable = false;  // it had its first values: requests and epochs are for usable shards only
    std::vector<Slice> slices;
  };

  std::string container;
  uint64_t epoch = 1;
  Aggregation rule = Aggregation::sync;
  std::map<int32_t, Entry> shards;  // by number
  std::vector<std::string> tasks;   // that hold shards, in turn; set before the first add()

  // Lays these parameters out over `count` new shards (0: one per task), and returns the numbers
  // of those that got something, ascending. They stay, also when making them fails: the same ones
  // are tried again, so that what a process has made of them already still fits.
  std::vector<int32_t> add(const std::vector<ParameterSpec>& parameters, int count);
  void use(const std::vector<int32_t>& numbers);  // they have their first values
  bool usable(const std::vector<int32_t>& numbers) const;

  // Of usable shards:
  std::vector<int32_t> numbers() const;
  bool lives_on(const std::string& task) const;  // whether one of them does
  RouteParameters routes(uint64_t session) const;

 private:
  uint32_t next_slice_ = 0;
};

}  // namespace troupe
