// DeviceName: the device of a node, complete or partial: "/job:ps/task:1/device:cpu:0".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "troupe/op.hpp"

namespace troupe {

// A field left out means "any". The empty name is any device.
struct DeviceName {
  std::optional<std::string> job = {};
  std::optional<int64_t> task = {};
  std::optional<DeviceKind> kind = {};
  std::optional<int64_t> index = {};  // among the devices of this kind in the task

  // Every field that is set here has the same value in `full`.
  bool matches(const DeviceName& full) const;
  friend bool operator==(const DeviceName&, const DeviceName&) = default;
};

// Reads "/job:NAME", "/task:N", "/device:KIND:N" or "/device:KIND", each at most once and all of
// them optional. KIND is cpu, shadow, or cuda (also written gpu), in any case. Throws:
// Error(invalid_argument) naming the part and showing a correct one.
DeviceName parse_device_name(std::string_view text);
std::string to_string(const DeviceName& name);  // in the order above
// `name` with its missing fields taken from `fallback`. A task belongs to its job and an index to
// its kind, so neither is taken from a fallback of another job or kind.
DeviceName merge(const DeviceName& name, const DeviceName& fallback);

}  // namespace troupe
