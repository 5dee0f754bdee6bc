// DeviceName: the device of a node, complete or partial: "/job:ps/task:1/device:cpu:0". Implemented
// in graph/device_name.cpp.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

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

// ----------------------------------------------------------------------------------------------
// Machine: the processor, memory and GPUs that this process can use. Implemented in
// devices/machine.cpp.

struct Machine {
  std::string processor;                  // as the system calls it; empty: unknown
  std::vector<std::string> instructions;  // instruction sets of this processor that the library's
                                          // kernels are compiled for, best first: avx512, avx2,
                                          // sse2
  std::string uses;                       // the set in use; TROUPE_ISA selects another
  int cores = 0;                          // available to this process
  int64_t memory_bytes = 0;               // of the machine
  int cuda_devices = 0;
};
// Throws: Error(bad_configuration) if TROUPE_ISA names an instruction set that is not available.
Machine this_machine();

}  // namespace troupe
