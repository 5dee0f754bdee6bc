// A run that does not get on is reported after five seconds, once: under virtual time.
#include <doctest/doctest.h>

#include <caf/io/all.hpp>
#include <caf/io/network/test_multiplexer.hpp>
#include <caf/scheduler/test_coordinator.hpp>

#include "actors/master.hpp"
#include "net/caf_bridge.hpp"
#include "tests/support/sim_net.hpp"

namespace troupe {
namespace {

std::shared_ptr<AsyncContext> held;  // by the kernel of Hold, until the test answers it

std::shared_ptr<const Registry> ops() {
  auto out = std::make_shared<Registry>();
  out->add({.name = "In",
            .outputs = {"y"},
            .infer_dtypes = [](const InferContext&) { return std::vector<DType>{DType::f32}; },
            .infer_shapes = [](const InferContext&) { return std::vector<Shape>{Shape{1}}; }});
  out->add({.name = "Hold",
            .inputs = {"x"},
            .outputs = {"y"},
            .infer_shapes = [](const InferContext& c) { return std::vector<Shape>{c.input(0)}; },
            .kernels = {{.device = DeviceKind::cpu,
                         .start = [](std::shared_ptr<AsyncContext> c) { held = std::move(c); }}}});
  return out;
}

}  // namespace

TEST_CASE(
    "a run without progress is reported once, after five seconds: who, for whom, what to do") {
  sim::SimNet net(1);
  sim::SimHost& host = net.add("client");
  std::vector<std::string> lines;
  ProcessOptions options;
  options.threads = 1;
  options.cuda = false;
  options.ops = ops();
  options.log = [&](LogLevel, const std::string& line) { lines.push_back(line); };
  ProcessSeams seams;
  seams.configure = [&](caf::actor_system_config& config) {
    load_test_network(config, host.rng());
    config.set("scheduler.policy", caf::atom("testing"));
  };
  seams.transport = &host;
  seams.clock = &host;
  seams.rng = &host.rng();
  ClusterOptions cluster;
  cluster.listen = "127.0.0.1:1000";
  Process process("/job:client/task:0", 1, options, cluster, std::move(seams));
  auto& jobs = dynamic_cast<caf::scheduler::test_coordinator&>(process.system().scheduler());
  auto& brokers =
      dynamic_cast<caf::io::network::test_multiplexer&>(process.system().middleman().backend());
  const auto settle = [&] {
    while (jobs.try_run_once() || brokers.try_exec_runnable()) {
    }
  };
  const auto pass = [&](std::chrono::milliseconds time) {
    for (const auto step = std::chrono::milliseconds(50); time.count() > 0; time -= step) {
      jobs.clock().advance_time(step);
      settle();
    }
  };

  Graph graph{options.ops};
  const Output x = graph.add({"In", {}, {}, "x"});
  const Output y = graph.add({"Hold", {x}, {}, "fc1/pull"});
  auto master = std::make_shared<Master>(process, graph, 7);
  process.start(master.get());
  settle();
  const int64_t call = master->prepare({y}, {x});
  bool ended = false;
  master->start(call, {Tensor::of<float>({1}, {1})}, {}, [&](RunResult result) {
    CHECK(result.code == Errc::ok);
    ended = true;
  });
  settle();
  const auto reports = [&] {
    std::vector<std::string> out;
    for (const std::string& line : lines)
      if (line.rfind("no progress", 0) == 0) out.push_back(line);
    return out;
  };
  pass(std::chrono::milliseconds(4900));
  CHECK(reports().empty());
  pass(std::chrono::milliseconds(1300));
  REQUIRE(reports().size() == 1);
  const std::string line = reports()[0];
  for (const char* part : {"run=", "since=5", "/job:client/task:0", "fc1/pull", "kill it"})
    CHECK_MESSAGE(line.find(part) != std::string::npos, line);
  pass(std::chrono::milliseconds(20'000));
  CHECK(reports().size() == 1);

  std::exchange(held, nullptr)->done({Tensor::of<float>({2}, {1})});
  settle();
  CHECK(ended);
  master->stop();
  process.stop();
  settle();
  master.reset();
}

}  // namespace troupe
