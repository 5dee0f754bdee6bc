// A Process of a simulated cluster: its network, clock and random numbers, and the scheduler that
// runs its actors only when it is told to.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include <caf/io/all.hpp>
#include <caf/io/network/test_multiplexer.hpp>
#include <caf/scheduler/test_coordinator.hpp>

#include "actors/cluster/process.hpp"
#include "net/caf/caf_bridge.hpp"
#include "chaos/sim_net.hpp"

namespace troupe {

// Requires: `host` outlives the process.
inline ProcessSeams seams_of(sim::SimHost& host) {
  ProcessSeams out;
  out.configure = [&host](caf::actor_system_config& config) {
    load_test_network(config, host.rng());
    config.set("scheduler.policy", caf::atom("testing"));
  };
  out.transport = &host;
  out.clock = &host;
  out.rng = &host.rng();
  return out;
}
inline caf::scheduler::test_coordinator& jobs_of(Process& process) {
  return dynamic_cast<caf::scheduler::test_coordinator&>(process.system().scheduler());
}
inline caf::io::network::test_multiplexer& brokers_of(Process& process) {
  return dynamic_cast<caf::io::network::test_multiplexer&>(process.system().middleman().backend());
}

}  // namespace troupe
