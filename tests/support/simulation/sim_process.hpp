// A Process of a simulated cluster: its network, clock and random numbers, and the scheduler that
// runs its actors only when a test says so. Also ops for a call that waits in a kernel.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include <caf/io/all.hpp>
#include <caf/io/network/test_multiplexer.hpp>
#include <caf/scheduler/test_coordinator.hpp>

#include "actors/cluster/process.hpp"
#include "net/caf/caf_bridge.hpp"
#include "tests/support/simulation/sim_net.hpp"
#include "troupe/op.hpp"

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

// Two ops. In: fed, f32, one axis. Hold: y is the value with which `hold` answers the firing.
inline std::shared_ptr<const Registry> held_ops(void (*hold)(std::shared_ptr<AsyncContext>)) {
  auto out = std::make_shared<Registry>();
  out->add({.name = "In",
            .outputs = {"y"},
            .infer_dtypes = [](const InferContext&) { return std::vector<DType>{DType::f32}; },
            .infer_shapes = [](const InferContext&) { return std::vector<Shape>{Shape{-1}}; }});
  out->add({.name = "Hold",
            .inputs = {"x"},
            .outputs = {"y"},
            .infer_shapes = [](const InferContext& c) { return std::vector<Shape>{c.input(0)}; },
            .kernels = {{.device = DeviceKind::cpu, .start = hold}}});
  return out;
}

}  // namespace troupe
