// The task that a device belongs to: "/job:ps/task:1" of "/job:ps/task:1/device:cpu:0".
#pragma once

#include <string>

namespace troupe {

// Requires: the full name of a device.
inline std::string task_of(const std::string& device) {
  return device.substr(0, device.find("/device:"));
}

}  // namespace troupe
