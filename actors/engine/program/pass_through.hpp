// PassThroughNodes: the nodes of a partition that stand in a branch and need not fire, because
// their readers wait for the branch itself. A captured value has the slot that it is captured from;
// a constant is computed once, when the partition is compiled.
//
// Owner: compile(), for one partition. Thread: one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "devices/device.hpp"
#include "placement/partition.hpp"

namespace troupe {

class PassThroughNodes {
 public:
  PassThroughNodes(const Graph& graph, const Partition& partition, const Device& device);

  bool is(size_t part) const { return is_[part]; }
  // The node whose value `part` has.
  size_t source(size_t part) const;
  // The nodes that `part` runs after because of pass-through nodes that it reads or waits for,
  // without those that its other inputs imply.
  std::vector<int32_t> inherited(size_t part) const;

 private:
  const Op& op(const PartNode& part) const { return *graph_.node(part.node).op; }
  bool opens(int32_t part) const;
  bool may_be(const PartNode& part, const Device& device) const;
  void add(size_t part);
  std::vector<int32_t> all_before(size_t part) const;
  bool implied(size_t part, int32_t opener) const;

  const Graph& graph_;
  const std::vector<PartNode>& parts_;
  std::vector<std::vector<int32_t>> through_;  // of a pass-through node: the branches it stands for
  std::vector<bool> is_;
  bool any_ = false;
};

}  // namespace troupe
