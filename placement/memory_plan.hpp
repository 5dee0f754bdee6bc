// The memory that a partition takes in a step (troupe/graph.hpp): a pure function of
// the partition, whose nodes stand in firing order.
#pragma once

#include "placement/partition.hpp"
#include "troupe/graph.hpp"

namespace troupe {

// One piece of memory of a step: in use from the firing of node `begin` to the end of node `end`.
struct Lifetime {
  int32_t node = -1;  // index in the partition; the node that makes the first value in it
  int32_t output = 0;
  int32_t begin = 0, end = 0;  // indices in Partition::nodes
  int64_t bytes = 0;
  int64_t values = 1;  // number of values in it, each in place of the one before
};

struct Lifetimes {
  std::vector<Lifetime> pieces;  // by begin
  int64_t in_place = 0;
  int64_t unknown = 0;
};
Lifetimes lifetimes(const Graph& graph, const Partition& partition);

// Places the pieces so that those that live at the same time do not overlap: the largest first,
// each as low as it fits. Returns the bytes of the block; places are multiples of 64.
int64_t place_in_arena(const std::vector<Lifetime>& pieces, std::vector<int64_t>* places = nullptr);

// The bytes of all values that the nodes make, as if no memory were reused. Sizes that only a step
// knows are left out, here and below; both functions are linear in the number of nodes.
int64_t bytes_made(const Graph& graph, const Partition& partition);
// The most bytes at once, with the inputs of nodes without outputs kept until the end: a pushed
// value becomes a parameter, or waits for its acknowledgement.
int64_t peak_bytes(const Graph& graph, const Partition& partition);

// By node: true if everything that it makes is kept until the end of the step, as it is or in
// values made from it, and is at least as large as its inputs. So is the gradient of a large matrix
// that is pushed: the later such a node fires, the less is in use at once.
std::vector<bool> leaves_more(const Graph& graph, const Partition& partition);

// For nodes that several threads fire: result[i] says how early node i may fire, so that costly
// nodes stay within peak_bytes(): as soon as all costly nodes before index result[i] have fired. 0:
// at any time; so it is for nodes that make little and for nodes of loops, and for all if the
// result is empty. Not bounded: the sum of many small values, values that arrive late from other
// devices while other nodes go on, and scratch memory of kernels. Takes time proportional to the
// nodes, times a logarithm.
std::vector<int32_t> earliest_firings(const Graph& graph, const Partition& partition);

MemoryPlan plan_memory(const Graph& graph, const Partition& partition);

// One line for a person if the plan exceeds the memory of a device, with the largest values; empty
// if it fits, as far as sizes are known. Linear in the number of nodes.
std::string over_budget(const Graph& graph, const Partition& partition, int64_t budget_bytes);

}  // namespace troupe
