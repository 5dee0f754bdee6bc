// The actor that stands for a device: other processes find it by the device's name and ask about
// its memory. Kernels do not pass through it: executors launch them on the Device itself, in the
// firing loop. Nothing is lost when it dies, as the Device lives in the process.
//
// Owner: the process, which ends with it. Thread: an actor; any thread may spawn it or send to it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <caf/all.hpp>

#include "actors/async/messages.hpp"
#include "devices/device.hpp"
#include "troupe/session.hpp"

namespace troupe {

using DeviceActor = caf::typed_actor<caf::replies_to<DescribeDevice>::with<DeviceDescription>>;
DeviceActor spawn_device(caf::actor_system& system,
                         Device& device);  // the device must outlive the actor

// The devices of a process, and the actor of each while its actor system runs.
// Owner: Process. Thread: any, after begin() and before end().
class LocalDevices {
 public:
  // The first one is a CPU. Throws: Error(bad_configuration) for resources that the system denies.
  LocalDevices(const std::string& task, const ProcessOptions& options);
  const std::vector<std::unique_ptr<Device>>& all() const { return devices_; }
  Device* find(const std::string& name) const;               // nullptr if it is not one of them
  caf::actor actor_of(const std::string& name) const;        // empty if it is not one of them
  std::vector<caf::actor> begin(caf::actor_system& system);  // makes the actors
  void end() { actors_.clear(); }

 private:
  std::vector<std::unique_ptr<Device>> devices_;
  std::vector<DeviceActor> actors_;  // as devices_; empty before begin() and after end()
};

}  // namespace troupe
