// Placement: which node runs on which device. A pure function of the graph, the devices and what
// they can run.
//
// The explicit placer does what it is told: a node goes where its device wish and colocation say,
// and to the default device when nothing was said.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "troupe/graph.hpp"

namespace troupe {

struct PlacementOptions {
  std::vector<std::string>
      devices;  // full names of all there are; of several that fit, the first is taken
  std::string default_device;  // one of them: taken whenever it fits, so also for a node that
                               // wishes nothing
  std::function<bool(const Node&, const std::string& device)>
      has_kernel;  // empty: every device runs everything
  bool soft =
      true;  // a node without a kernel where it wants to be goes to a cpu device of the same task
};

struct Placement {
  std::map<int32_t, std::string> devices;  // node id -> full device name
  std::map<int32_t, std::string> reasons;  // node id -> why, for people
};

// Places `nodes` (of prune). Colocated nodes share a device that fits the wishes of all of them and
// has all their kernels. Throws: Error(invalid_argument) naming node, origin, wish and the devices
// there are.
Placement place(const Graph& graph, const std::vector<int32_t>& nodes,
                const PlacementOptions& options);

}  // namespace troupe
