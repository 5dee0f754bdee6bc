// The memory that a partition takes in a step (troupe/graph/memory_plan.hpp): a pure function of
// the partition, whose nodes stand in firing order.
#pragma once

#include "placement/partition.hpp"
#include "troupe/graph/memory_plan.hpp"

namespace troupe {

// One piece of memory of a step: from when the node at `begin` fires until that at `end` has.
struct Lifetime {
  int32_t node = -1;  // of the partition; it makes the value first
  int32_t output = 0;
  int32_t begin = 0, end = 0;  // indices in Partition::nodes
  int64_t bytes = 0;
  int64_t values = 1;  // that are in it, one in place of the other
};

struct Lifetimes {
  std::vector<Lifetime> pieces;  // by begin
  int64_t in_place = 0;
  int64_t unknown = 0;
};
Lifetimes lifetimes(const Graph& graph, const Partition& partition);

// A place for each piece, so that those that live at the same time do not meet: the largest first,
// each as low as it can lie. Returns the bytes that all take; places are multiples of 64.
int64_t place_in_arena(const std::vector<Lifetime>& pieces, std::vector<int64_t>* places = nullptr);

// Of all values that its nodes make, as if no memory was used twice. What only a step knows is left
// out, here and below; both take time in proportion to the nodes.
int64_t bytes_made(const Graph& graph, const Partition& partition);
// The most at once, with what nodes without outputs read kept until the end: what is pushed becomes
// a parameter, or waits for its acknowledgement.
int64_t peak_bytes(const Graph& graph, const Partition& partition);

// By node: all that it makes is kept until the end of the step, as it is or in what is made of it,
// and is no less than what it reads. So is the gradient of a large matrix that is pushed: the later
// such a node fires, the less is in use at once.
std::vector<bool> leaves_more(const Graph& graph, const Partition& partition);

// For nodes that several threads fire: result[i] says how early node i may, so that such nodes take
// no more than peak_bytes(): as soon as all such nodes before that one have fired. 0: at any time,
// as all nodes that make little may, those of loops, and, where the result is empty, all. What many
// small ones make at once is not bounded, nor what comes late from elsewhere while others go on,
// nor what kernels take beside. Takes time in proportion to the nodes, and a logarithm.
std::vector<int32_t> earliest_firings(const Graph& graph, const Partition& partition);

MemoryPlan plan_memory(const Graph& graph, const Partition& partition);

// One line for a person if the plan takes more than a device has, with the largest values; empty if
// it does not, as far as sizes are known. Takes time in proportion to the nodes.
std::string over_budget(const Graph& graph, const Partition& partition, int64_t budget_bytes);

}  // namespace troupe
