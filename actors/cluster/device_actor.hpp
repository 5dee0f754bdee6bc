// The actor that stands for a device: other processes find it by the device's name, ask about its
// memory, and monitor it. It lives as long as the device works: it ends with the reason when the
// device is lost, and the device is lost when it ends. Kernels, copies and allocations do not pass
// through it: executors call the Device itself, in the firing loop.
//
// Owner: the process, which monitors it. Thread: an actor; any thread may spawn it or send to it.
#pragma once

#include <functional>
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
  Device* find(const std::string& name) const;         // nullptr if it is not one of them
  caf::actor actor_of(const std::string& name) const;  // empty if it is not one of them
  // Makes the actors. `ended` is called when one of them has ended, on any thread.
  using Ended = std::function<void(Device& device, const caf::error& reason)>;
  std::vector<caf::actor> begin(caf::actor_system& system, const Ended& ended);
  void end();

 private:
  std::vector<std::unique_ptr<Device>> devices_;
  std::vector<DeviceActor> actors_;  // as devices_; empty before begin() and after end()
};

}  // namespace troupe
