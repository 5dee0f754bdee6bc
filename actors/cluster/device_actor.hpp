// The actor that stands for a device: other processes find it by the device's name and ask about
// its memory. Kernels do not pass through it: executors launch them on the Device itself, in the
// firing loop. Nothing is lost when it dies, as the Device lives in the process.
//
// Owner: the process, which ends with it. Thread: an actor; any thread may spawn it or send to it.
#pragma once

#include <caf/all.hpp>

#include "actors/async/messages.hpp"
#include "devices/device.hpp"

namespace troupe {

using DeviceActor = caf::typed_actor<caf::replies_to<DescribeDevice>::with<DeviceDescription>>;
DeviceActor spawn_device(caf::actor_system& system,
                         Device& device);  // the device must outlive the actor

}  // namespace troupe
