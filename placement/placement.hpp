// Placement: the device of each node. A pure function of the graph, the devices and the kernels
// they have.
//
// The placer is explicit: a node goes where its requested device and colocation say, and to the
// default device if it requests none.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "troupe/graph.hpp"

namespace troupe {

struct PlacementOptions {
  std::vector<std::string>
      devices;                 // full names of all devices; of several that fit, the first is taken
  std::string default_device;  // one of them; taken whenever it fits, and so for a node that
                               // requests none
  std::function<bool(const Node&, const std::string& device)>
      has_kernel;    // empty: every device runs everything
  bool soft = true;  // without a kernel there, a node goes to a cpu device of the same task
};

struct Placement {
  std::map<int32_t, std::string> devices;  // node id -> full device name
  std::map<int32_t, std::string> reasons;  // node id -> reason, for people
};

// Places `nodes` (of prune()). Colocated nodes share a device that fits all their requests and has
// all their kernels. Throws: Error(invalid_argument) naming node, origin, request and the existing
// devices.
Placement place(const Graph& graph, const std::vector<int32_t>& nodes,
                const PlacementOptions& options);

}  // namespace troupe
