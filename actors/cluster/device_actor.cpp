// The behaviour of the device actor.
#include "actors/cluster/device_actor.hpp"

namespace troupe {
namespace {

struct DeviceActorState {
  const char* name = "device";  // the actor's name in CAF and in our logs
};

DeviceActor::behavior_type run_device(DeviceActor::stateful_pointer<DeviceActorState>,
                                      Device* device) {
  return {[device](const DescribeDevice&) {
    const MemoryStats stats = device->memory().stats();
    return DeviceDescription{device->name(),       to_string(device->kind()), stats.used_bytes,
                             stats.reserved_bytes, stats.peak_bytes,          stats.budget_bytes};
  }};
}

}  // namespace

DeviceActor spawn_device(caf::actor_system& system, Device& device) {
  return system.spawn(run_device, &device);
}

}  // namespace troupe
