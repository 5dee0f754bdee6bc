// Callable::start(): calls that run while the caller goes on.
#include <atomic>
#include <chrono>
#include <future>
#include <limits>
#include <stdexcept>
#include <thread>

#include "tests/support/engine/own_op.hpp"
#include "tests/support/engine/local_cluster.hpp"
#include "tests/support/refusal.hpp"

namespace troupe {
namespace {

std::thread::id fired_by;  // the thread of the last Caller

// The project's ops, and Caller, which records the thread that runs it.
std::shared_ptr<const Registry> with_caller() {
  return ops_with({own_op("Caller", {DeviceKind::cpu, DType::f32, [](KernelContext& c) {
                                       fired_by = std::this_thread::get_id();
                                       c.set_output(0, c.input(0));
                                     }})});
}

struct Started {
  Graph graph{with_caller()};
  Output x = placeholder(graph, DType::f32, {2}, "x");
  Output y = graph.add({"Caller", {x}});
  const Tensor value = Tensor::of<float>({1, 2}, {2});
};

TEST_CASE_FIXTURE(Started, "a call that is started runs on no thread of its caller") {
  Session session = Session::local(graph, {.threads = 1});
  const Callable call = session.prepare({y}, {x});
  for (int i = 0; i < 100; ++i) {
    std::promise<RunResult> told;
    call.start({value}, {}, [&](RunResult result) { told.set_value(std::move(result)); });
    const RunResult result = told.get_future().get();
    REQUIRE(result.code == Errc::ok);
    CHECK(same_bits(result.values.at(0), value));
    CHECK(fired_by != std::this_thread::get_id());
  }
}

TEST_CASE_FIXTURE(Started, "a callback that throws ends no thread, and is told") {
  std::atomic<int> told{0};
  Session session =
      Session::local(graph, {.threads = 1, .log = [&](LogLevel, const std::string& line) {
                               told += line.find("the callback of a run threw") != line.npos;
                             }});
  const Callable call = session.prepare({y}, {x});
  std::promise<void> called;
  call.start({value}, {}, [&](const RunResult&) {
    called.set_value();
    throw std::runtime_error("a bug of the program");
  });
  called.get_future().wait();
  CHECK(same_bits(call({value}).at(0), value));
  session.close();
  CHECK(told == 1);
}

TEST_CASE_FIXTURE(Started, "a timeout may be any time, up to for ever") {
  const auto all_works = [&](Session& session) {
    const Callable call = session.prepare({y}, {x});
    RunOptions patient{.timeout = std::chrono::milliseconds::max()};
    CHECK(same_bits(call({value}, patient).at(0), value));
    std::promise<RunResult> told;
    call.start({value}, patient, [&](RunResult result) { told.set_value(std::move(result)); });
    CHECK(told.get_future().get().code == Errc::ok);
  };
  SUBCASE("here") {
    Session session = Session::local(graph, {.threads = 1});
    all_works(session);
  }
  SUBCASE("on a cluster, where a step is looked at several times") {
    const auto ops = ops_with({own_op("Long", {DeviceKind::cpu, DType::f32, [](KernelContext& ctx) {
                                                 using Clock = std::chrono::steady_clock;
                                                 const auto end =
                                                     Clock::now() + std::chrono::milliseconds(200);
                                                 while (Clock::now() < end) {
                                                 }
                                                 ctx.set_output(0, ctx.input(0));
                                               }})});
    LocalCluster cluster({"/job:worker/task:0"}, 1, ops);
    ConnectOptions options{.timeout = std::chrono::milliseconds::max()};
    Graph plain(ops);
    const Output z = plain.add({.op = "Long", .inputs = {fill(plain, {2}, 3.0, DType::f32)}});
    Session session = cluster.connect(plain, {}, options);
    RunOptions patient{.timeout = std::chrono::milliseconds::max()};
    CHECK(session.run({z}, {}, patient).at(0).data<float>()[1] == 3);
  }
}

TEST_CASE_FIXTURE(Started,
                  "a number that says nothing is refused, naming its option and what is allowed") {
  const auto refused = [&](const ProcessOptions& options, const std::string& text) {
    const Refusal refusal = refusal_of([&] { Session::local(graph, options); });
    CHECK(refusal.code == Errc::invalid_argument);
    CHECK(refusal.text == "ProcessOptions::" + text);
  };
  refused({.threads = -1}, "threads is -1; wants 0 (one per core) to 4096");
  refused({.threads = 1 << 30}, "threads is 1073741824; wants 0 (one per core) to 4096");
  refused({.cpu_devices = 0}, "cpu_devices is 0; wants 1 to 1024");
  refused({.shadow_devices = -3}, "shadow_devices is -3; wants 0 to 1024");
  refused({.parameter_shards = -2},
          "parameter_shards is -2; wants 0 (one per task that holds any) to 65536");
  ConnectOptions connect{.replicas = -1};
  CHECK(refusal_of([&] { Session::connect(graph, "127.0.0.1:1", connect); }).text ==
        "ConnectOptions::replicas is -1; wants 0 (those in the graph) to 65536");
  connect.replicas = 0;
  connect.process.threads = -1;
  CHECK(refusal_of([&] { Session::connect(graph, "127.0.0.1:1", connect); }).text ==
        "ProcessOptions::threads is -1; wants 0 (one per core) to 4096");
  Session session = Session::local(graph, {.threads = 1});
  const Refusal step = refusal_of([&] { session.run({y}, {{x, value}}, {.step = -2}); });
  CHECK(step.code == Errc::invalid_argument);
  CHECK(step.text == "RunOptions::step is -2; give a step from 0, or -1: then the session counts");
  const int64_t largest = std::numeric_limits<int64_t>::max();
  const Refusal far = refusal_of([&] { session.run({y}, {{x, value}}, {.step = largest}); });
  CHECK(far.code == Errc::invalid_argument);
  has(far.text, "give a step below 2^62");
}

}  // namespace
}  // namespace troupe
