// NodeTimes: how long the nodes of a program take, as measured while steps run, and thus which of
// them are costly enough for a lane of their own.
//
// Owner: the executor. Thread: any.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <vector>

#include "actors/engine/program/program.hpp"
#include "placement/node_costs.hpp"

namespace troupe {

// From this time on a node is worth handing to another lane: a hand-over takes about 5 us.
inline constexpr std::chrono::nanoseconds kCostlyFrom{20'000};

class NodeTimes {
 public:
  // Begins with what `known` has of earlier programs; null: nothing is known. It outlives this.
  // With one lane nothing is measured.
  NodeTimes(Program& program, int lanes, NodeCosts* known, DeviceKind device);

  void sampled(uint32_t node, int64_t took_ns);
  int64_t of(uint32_t node) const;  // nanoseconds; 0: not measured
  // In nanoseconds, by node of the graph, as far as they were measured.
  std::map<int32_t, int64_t> by_graph_node() const;

 private:
  Program& program_;
  std::vector<NodeCosts::Cost*> costs_;  // by node; null where none is kept
  std::deque<NodeCosts::Cost> own_;
};

}  // namespace troupe
