// The actor that stands for a device: other processes find it by the device's name and ask about
// its memory. Kernels do not pass through it: executors launch them on the Device itself, in the
// firing loop. Nothing is lost when it dies, as the Device lives in the process.
//
// Owner: the process, which ends with it. Thread: an actor; any thread may spawn it or send to it.
#pragma once

#include <caf/all.hpp>

#include "devices/device.hpp"

namespace troupe {

// any -> device actor. Answered by DeviceDescription.
struct DescribeDevice {};
struct DeviceDescription {
  std::string name, kind;
  int64_t used_bytes = 0, reserved_bytes = 0, peak_bytes = 0, budget_bytes = 0;
};
template <class I>
auto inspect(I&, DescribeDevice&) -> caf::error {
  return caf::none;
}
template <class I>
auto inspect(I& f, DeviceDescription& x) {
  return f(x.name, x.kind, x.used_bytes, x.reserved_bytes, x.peak_bytes, x.budget_bytes);
}

using DeviceActor = caf::typed_actor<caf::replies_to<DescribeDevice>::with<DeviceDescription>>;
DeviceActor spawn_device(caf::actor_system& system,
                         Device& device);  // the device must outlive the actor

}  // namespace troupe
