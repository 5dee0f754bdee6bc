// TrainingServices: the services that training/ adds to a process. The services of production are
// training_services() (troupe/session.hpp); a simulation makes its own with seams.
//
// Owner: its maker; it outlives the processes that name it. Thread: any.
#pragma once

#include "actors/async/messages.hpp"
#include "actors/cluster/services.hpp"
#include "training/parameters/messages.hpp"
#include "training/shards/shard_service.hpp"

namespace troupe {

// The service "parameters" of a process: RouteParameters sets the routes of a session; LinkLost
// comes from the process, and ends the requests over that link.
using ParameterService =
    caf::typed_actor<caf::replies_to<RouteParameters>::with<caf::unit_t>, caf::reacts_to<LinkLost>>;

class TrainingServices final : public ServicesFactory {
 public:
  explicit TrainingServices(ShardSeams seams = {}) : seams_(std::move(seams)) {}
  void add_messages(caf::actor_system_config& config, MessageKinds& kinds) const override;
  std::unique_ptr<ProcessServices> make_services(Process& process) const override;
  std::unique_ptr<ParameterOwner> make_parameter_owner(
      Master& master, ParameterOwnerOptions options) const override;

 private:
  const ShardSeams seams_;
};

}  // namespace troupe
