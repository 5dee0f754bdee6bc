// The device actor, as another process sees it.
#include "actors/cluster/device_actor.hpp"

#include <doctest/doctest.h>

#include "actors/async/messages.hpp"
#include "actors/master/session_state.hpp"
#include "tests/support/engine/local_cluster.hpp"
#include "troupe/ops.hpp"

namespace troupe {
namespace {

constexpr std::chrono::seconds kSoon{60};

}  // namespace

TEST_CASE("a device of another process is found by its name and tells of its memory") {
  const std::string worker = "/job:worker/task:0";
  LocalCluster cluster({worker});
  Graph g;
  Output y;
  {
    const auto scope = g.scope({.device = worker});
    y = reduce_sum(fill(g, {1000, 1000}, 1));
  }
  Session session = cluster.connect(g);
  Device& device = cluster.process(0).cpu();
  const int64_t peak_before = device.memory().stats().peak_bytes;
  CHECK(session.run({y})[0].item<float>() == 1e6);

  caf::scoped_actor self(session.state().process->system());
  const caf::actor agent = session.state().master->members().agents().at(worker);
  caf::actor found;
  self->request(agent, kSoon, FindService{device.name()})
      .receive([&](const caf::actor& actor) { found = actor; },
               [](const caf::error& e) { FAIL(caf::to_string(e)); });
  CHECK(found.node() != self->system().node());
  DeviceDescription told;
  self->request(found, kSoon, DescribeDevice{})
      .receive([&](const DeviceDescription& d) { told = d; },
               [](const caf::error& e) { FAIL(caf::to_string(e)); });
  const MemoryStats stats = device.memory().stats();
  CHECK(told.name == device.name());
  CHECK(told.kind == "cpu");
  CHECK(told.used_bytes == stats.used_bytes);
  CHECK(told.reserved_bytes == stats.reserved_bytes);
  CHECK(told.reserved_bytes > 0);
  CHECK(told.peak_bytes == stats.peak_bytes);
  CHECK(told.peak_bytes >= peak_before + 4'000'000);
  CHECK(told.budget_bytes == ProcessOptions{}.memory_budget_bytes);

  std::string refused;
  self->request(agent, kSoon, FindService{worker + "/device:cpu:7"})
      .receive([](const caf::actor&) {},
               [&](const caf::error& e) { refused = from_caf(e).second; });
  CHECK(refused == worker + " offers no service " + worker + "/device:cpu:7");
}

}  // namespace troupe
