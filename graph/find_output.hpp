// The place of an output in a list: std::find() would compare by `==`, which makes a node.
#pragma once

#include <algorithm>
#include <vector>

#include "troupe/graph.hpp"

namespace troupe {

// list.end() if it is not there.
inline std::vector<Output>::const_iterator find_output(const std::vector<Output>& list,
                                                       const Output& output) {
  return std::find_if(list.begin(), list.end(), [&](const Output& o) { return o.is(output); });
}

}  // namespace troupe
