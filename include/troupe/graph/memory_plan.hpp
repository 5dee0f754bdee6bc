// What a step of a call takes of the memory of each device, found out before it runs: how long each
// value lives, which one is made in place of another, and the most that is there at once. Of a step
// that fires its nodes one after the other, and has the device to itself. Implemented in
// placement/memory_plan.cpp.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "troupe/graph.hpp"

namespace troupe {

struct MemoryPlan {
  // A value that is there when most memory is in use.
  struct Value {
    std::string name;  // "fc1/MatMul:0"
    TensorType type;
    int64_t bytes = 0;
    std::string first, last;  // nodes: which makes it, and which reads it last
  };
  std::string device;
  int64_t values = 0;       // that the step makes, and which are not in place of another
  int64_t naive_bytes = 0;  // of all values that nodes make, as if no memory was used twice
  int64_t peak_bytes = 0;   // the most at once: no plan takes less with this order of nodes
  int64_t pool_bytes = 0;   // the same in blocks of the device's pool
  // One block of memory in which each value has a fixed place, chosen by size, the largest first
  // (Pisarchyk and Lee 2020). -1: more than 20,000 values, too many to find out.
  int64_t arena_bytes = 0;
  int64_t in_place = 0;        // values that take over memory of what their node reads
  std::string peak_at;         // the node that fires when most is in use
  std::vector<Value> largest;  // then, ten at most, by size
  // Left out: of values whose shapes only a step knows, how many there are. Of the body of a loop
  // one iteration counts, and not what it saves for its gradient. Scratch of kernels, parameters,
  // constants and feeds are not in it.
  int64_t unknown = 0;
};

// By device, the client's first. Nodes stand on the devices they ask for; what asks for none, in
// whole or in part, takes it from /job:local/task:0/device:cpu:0. The passes run first. Throws: as
// explain_passes(); Error(invalid_argument) as a session would for wishes that cannot be met.
std::vector<MemoryPlan> explain_memory(const Graph& graph, const std::vector<Output>& fetches,
                                       const std::vector<Output>& feeds = {});
std::string to_text(const MemoryPlan& plan);  // lines for people

}  // namespace troupe
