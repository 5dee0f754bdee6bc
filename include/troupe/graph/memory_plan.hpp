// The memory that a step of a call takes on each device, planned before it runs: how long each
// value lives, which value takes over the memory of another, and the peak. The plan assumes a step
// that fires its nodes one after the other and has the device to itself. Implemented in
// placement/memory_plan.cpp.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "troupe/graph.hpp"

namespace troupe {

struct MemoryPlan {
  // A value that is alive when most memory is in use.
  struct Value {
    std::string name;  // "fc1/MatMul:0"
    TensorType type;
    int64_t bytes = 0;
    std::string first, last;  // nodes: the one that makes it, and the last one that reads it
  };
  std::string device;
  int64_t values = 0;       // values that the step makes and that are not in place of another
  int64_t naive_bytes = 0;  // of all values that nodes make, as if no memory were reused
  int64_t peak_bytes = 0;   // the most at once: no plan takes less with this order of nodes
  int64_t pool_bytes = 0;   // the same in blocks of the device's pool
  // One block of memory in which each value has a fixed place, chosen by size, the largest first
  // (Pisarchyk and Lee 2020). -1: more than 20,000 values, too many to find out.
  int64_t arena_bytes = 0;
  int64_t in_place = 0;        // values that take over the memory of an input
  std::string peak_at;         // the node that fires at the peak
  std::vector<Value> largest;  // alive at the peak, at most ten, by size
  // The number of values that are left out because only a step knows their shapes. One iteration of
  // a loop's body is counted, without the values that it saves for its gradient. Scratch of
  // kernels, parameters, constants and feeds are not counted.
  int64_t unknown = 0;
};

// By device, the client's first. Nodes stand on the devices they request; a missing part of a
// request is taken from /job:local/task:0/device:cpu:0. The passes run first. Throws: as
// explain_passes(); Error(invalid_argument), as a session would, for requests that cannot be met.
std::vector<MemoryPlan> explain_memory(const Graph& graph, const std::vector<Output>& fetches,
                                       const std::vector<Output>& feeds = {});
std::string to_text(const MemoryPlan& plan);  // lines for people

}  // namespace troupe
