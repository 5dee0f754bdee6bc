// The device actor, as another process sees it.
#include "actors/cluster/device_actor.hpp"

#include <doctest/doctest.h>

#include <future>
#include <mutex>
#include <thread>

#include "actors/async/messages.hpp"
#include "actors/master/session_state.hpp"
#include "tests/support/engine/local_cluster.hpp"
#include "tests/support/engine/own_op.hpp"
#include "tests/support/refusal.hpp"
#include "troupe/op.hpp"
#include "troupe/ops.hpp"

namespace troupe {
namespace {

constexpr std::chrono::seconds kSoon{60};

// Identities that take their device away when the input is negative.
std::shared_ptr<const Registry> with_breaking_ops() {
  const Kernel now = {.device = DeviceKind::cpu, .dtype = DType::f32, .run = [](KernelContext& c) {
                        if (c.input(0).item<float>() < 0)
                          throw Error(Errc::device_lost, "uncorrectable ECC error");
                        *c.output(0, {}).mutable_data<float>() = c.input(0).item<float>();
                      }};
  const Kernel later = {
      .device = DeviceKind::cpu, .dtype = DType::f32, .start = [](std::shared_ptr<AsyncContext> c) {
        if (c->input(0).item<float>() < 0)
          c->fail(Errc::device_lost, "uncorrectable ECC error");
        else
          c->done({c->input(0)});
      }};
  return ops_with({own_op("BreaksNow", now), own_op("BreaksLater", later)});
}

caf::actor actor_of(Session& session, const std::string& device) {
  return session.state().process->local_devices().actor_of(device);
}

}  // namespace

TEST_CASE("a device that is lost ends its actor, and refuses later steps with the reason") {
  const std::string tail = "uncorrectable ECC error; its process has to begin anew";
  const std::pair<const char*, std::string> breaks[] = {{"BreaksNow", "/device:shadow:0"},
                                                        {"BreaksNow", "/device:cpu:1"},
                                                        {"BreaksLater", "/device:cpu:1"}};
  for (const auto& [op, device] : breaks) {
    CAPTURE(op);
    CAPTURE(device);
    std::mutex mutex;
    std::string log;
    Graph g(with_breaking_ops());
    Output x = placeholder(g, DType::f32, {}, "x");
    Output y, elsewhere = x + 1.0F;
    {
      const auto scope = g.scope({.device = device});
      y = g.add({.op = op, .inputs = {x}, .name = "breaks"});
    }
    Session session = Session::local(g, {.threads = 2,
                                         .cpu_devices = 2,
                                         .shadow_devices = 1,
                                         .log = [&](LogLevel, const std::string& line) {
                                           std::lock_guard lock(mutex);
                                           log += line + "\n";
                                         }});
    const std::string name = session.state().process->task() + device;
    const caf::actor actor = actor_of(session, name);
    std::promise<std::string> ended;
    caf::actor_cast<caf::abstract_actor*>(actor)->attach_functor(
        [&](const caf::error& reason) { ended.set_value(from_caf(reason).second); });
    CHECK(session.run({y}, {{x, Tensor::scalar(2.0F)}})[0].item<float>() == 2);
    const Refusal broken = refusal_of([&] { session.run({y}, {{x, Tensor::scalar(-1.0F)}}); });
    CHECK(broken.code == Errc::device_lost);
    has(broken.text, "breaks");
    has(broken.text, "uncorrectable ECC error");
    auto end = ended.get_future();
    REQUIRE(end.wait_for(kSoon) == std::future_status::ready);
    CHECK(end.get().find("uncorrectable ECC error") != std::string::npos);
    const Refusal later = refusal_of([&] { session.run({y}, {{x, Tensor::scalar(2.0F)}}); });
    CHECK(later.code == Errc::device_lost);
    has(later.text, "device " + name + " is lost: ");
    has(later.text, tail);
    CHECK(session.run({elsewhere}, {{x, Tensor::scalar(2.0F)}})[0].item<float>() == 3);
    session.close();
    CHECK_MESSAGE(log.find("a device is lost: device=" + name) != std::string::npos, log);
  }
}

TEST_CASE("a device whose actor is killed is lost") {
  Graph g;
  Output y;
  {
    const auto scope = g.scope({.device = "/device:cpu:1"});
    y = fill(g, {2}, 1.0F) + 1.0F;
  }
  Session session = Session::local(g, {.threads = 1, .cpu_devices = 2, .passes = false});
  const Callable step = session.prepare({y}, {});
  step({});
  const std::string name = session.state().process->task() + "/device:cpu:1";
  const caf::actor actor = actor_of(session, name);
  caf::anon_send_exit(actor, caf::exit_reason::kill);
  caf::scoped_actor(session.state().process->system())->wait_for(actor);
  const Device& device = *session.state().process->device(name);
  const auto until = std::chrono::steady_clock::now() + kSoon;
  while (!device.lost() && std::chrono::steady_clock::now() < until) std::this_thread::yield();
  CHECK_THROWS_WITH_AS(
      step({}), doctest::Contains(("device " + name + " is lost: its actor has ended").c_str()),
      Error);
}

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
  const Agent agent = session.state().master->members().agents().at(worker);
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
