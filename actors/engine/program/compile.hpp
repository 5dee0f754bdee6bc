// compile(): makes a Program of a partition. It is a pure function of its arguments, but for the
// constants that it computes in the device's memory.
//
// Owner: the caller. Thread: any.
#pragma once

#include <functional>
#include <memory>

#include "actors/engine/program/program.hpp"
#include "devices/device.hpp"

namespace troupe {

class Lanes;

struct CompileOptions {
  Device* device = nullptr;   // outlives the program
  int lanes = 1;              // threads that may run kernels side by side
  Lanes* op_lanes = nullptr;  // for the jobs of one kernel; null: its own thread does them
  // Where the value of that edge is made; nullptr: where all other values are.
  std::function<Memory*(const Edge&)> edge_memory;
  Memory* push_memory = nullptr;  // where gradients that are pushed are made; null: the same
};

// Throws: Error(invalid_argument) naming node and device for a node without a kernel, and for a
// call that does not fit its function.
Program compile(std::shared_ptr<const Graph> graph, Partition partition,
                const CompileOptions& options);

}  // namespace troupe
