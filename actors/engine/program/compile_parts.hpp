// Parts of compile(): the numbers that the nodes of a partition get, the loops, the calls.
//
// Owner: compile(). Thread: one.
#pragma once

#include <cstdint>
#include <vector>

#include "actors/engine/program/program.hpp"

namespace troupe {

// The numbers of a partition's nodes, each in its own program, by index in Partition::nodes.
struct PartNumbers {
  uint32_t slot_of(const PartInput& in) const {
    return first_slot[static_cast<size_t>(in.node)] + static_cast<uint32_t>(in.output);
  }
  std::vector<uint32_t> fires;  // number in the program, or kNone
  std::vector<uint32_t> first_slot;
};

// Requires: nodes and counts of `program` are there. (compile_loops.cpp)
void compile_loops(Program& program, const PartNumbers& numbers);

// Joins the Call nodes of `program` and of its bodies to the bodies that they run.
// (compile_calls.cpp)
void link_calls(Program& program);

}  // namespace troupe
