// is_on_cpu(), for passes that apply only to host nodes.
#pragma once

#include "graph/device_name.hpp"
#include "troupe/op.hpp"

namespace troupe {

// True if a node of a call runs on a CPU: by its device or, before it is placed, by its requested
// device; also true if it requests none.
inline bool is_on_cpu(const Node& node) {
  return parse_device_name(node.device).kind.value_or(DeviceKind::cpu) == DeviceKind::cpu;
}

}  // namespace troupe
