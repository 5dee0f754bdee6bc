// The behaviour of the device actor; the devices of a process.
#include "actors/cluster/device_actor.hpp"

#include "troupe/device.hpp"

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
  DeviceActor actor = system.spawn(run_device, &device);
  device.on_loss([actor](const std::string& reason) {
    caf::anon_send(caf::actor_cast<caf::actor>(actor),
                   caf::exit_msg{actor.address(), to_caf(Errc::device_lost, reason)});
  });
  return actor;
}

LocalDevices::LocalDevices(const std::string& task, const ProcessOptions& options) {
  const auto name = [&](const char* kind, int i) {
    return detail::concat(task, "/device:", kind, ":", i);
  };
  for (int i = 0; i < options.cpu_devices; ++i)
    devices_.push_back(make_cpu_device(name("cpu", i), options.memory_budget_bytes));
  for (int i = 0; i < options.shadow_devices; ++i)
    devices_.push_back(make_shadow_device(name("shadow", i), options.memory_budget_bytes));
  if (options.cuda)
    for (int i = 0; i < cuda_device_count(); ++i)
      devices_.push_back(make_cuda_device(name("cuda", i), i, options.memory_budget_bytes));
}

Device* LocalDevices::find(const std::string& name) const {
  for (const auto& device : devices_)
    if (device->name() == name) return device.get();
  return nullptr;
}

caf::actor LocalDevices::actor_of(const std::string& name) const {
  for (size_t i = 0; i < actors_.size(); ++i)
    if (devices_[i]->name() == name) return caf::actor_cast<caf::actor>(actors_[i]);
  return {};
}

std::vector<caf::actor> LocalDevices::begin(caf::actor_system& system, const Ended& ended) {
  std::vector<caf::actor> out;
  for (const auto& device : devices_) {
    const DeviceActor& actor = actors_.emplace_back(spawn_device(system, *device));
    caf::actor_cast<caf::abstract_actor*>(actor)->attach_functor(
        [ended, on = device.get()](const caf::error& reason) { ended(*on, reason); });
    out.push_back(caf::actor_cast<caf::actor>(actor));
  }
  return out;
}

void LocalDevices::end() {
  actors_.clear();
  for (const auto& device : devices_) device->on_loss(nullptr);  // holds the actor
}

}  // namespace troupe
