// Where passes look that are for hosts alone.
#pragma once

#include "troupe/device_name.hpp"
#include "troupe/op.hpp"

namespace troupe {

// Whether a node of a call runs on a CPU: by its device, or, before it has one, by its wish; one
// that wishes nothing may.
inline bool is_on_cpu(const Node& node) {
  return parse_device_name(node.device).kind.value_or(DeviceKind::cpu) == DeviceKind::cpu;
}

}  // namespace troupe
