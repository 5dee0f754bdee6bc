// A run that does not get on is reported after five seconds, once: under virtual time.
#include <doctest/doctest.h>

#include <future>

#include "actors/master/master.hpp"
#include "chaos/sim_process.hpp"
#include "tests/support/simulation/held_ops.hpp"

namespace troupe {
namespace {

std::promise<std::shared_ptr<AsyncContext>> held;  // by the kernel of Hold, for the test to answer

std::shared_ptr<const Registry> ops() {
  return held_ops([](std::shared_ptr<AsyncContext> c) { held.set_value(std::move(c)); });
}

constexpr const char* kClient = "/job:client/task:0";

// A master in a process of a cluster in which time passes when the test says so, and a call that
// waits for its kernel.
class Stalled {
 public:
  Stalled() {
    held = {};
    graph_ = std::make_unique<Graph>(options_.ops);
    const Output x = graph_->add({"In", {}, {}, "x"});
    const Output y = graph_->add({"Hold", {x}, {}, "fc1/pull"});
    master = std::make_unique<Master>(process_, *graph_, 7);
    process_.start(&master->members());
    settle();
    call = master->calls().prepare({y}, {x});
  }
  ~Stalled() {
    master->stop();
    process_.stop();
    settle();
  }
  void settle() {
    while (jobs_.try_run_once() || brokers_.try_exec_runnable()) {
    }
  }
  void pass(std::chrono::milliseconds time) {
    for (const auto step = std::chrono::milliseconds(50); time.count() > 0; time -= step) {
      jobs_.clock().advance_time(step);
      settle();
    }
  }
  std::vector<std::string> reports() const {
    std::vector<std::string> out;
    for (const std::string& line : lines_)
      if (line.rfind("still under way", 0) == 0) out.push_back(line);
    return out;
  }
  // With the call under way.
  void check_that_it_is_reported_once() {
    pass(std::chrono::milliseconds(4900));
    CHECK(reports().empty());
    pass(std::chrono::milliseconds(1300));
    REQUIRE(reports().size() == 1);
    const std::string line = reports()[0];
    for (const char* part : {"run=", "since=5", kClient, "fc1/pull", "kill it"})
      CHECK_MESSAGE(line.find(part) != std::string::npos, line);
    pass(std::chrono::milliseconds(20'000));
    CHECK(reports().size() == 1);
  }

  std::unique_ptr<Master> master;
  int64_t call = 0;

 private:
  ProcessOptions process_options() {
    options_.threads = 1;
    options_.cuda = false;
    options_.ops = ops();
    options_.log = [this](LogLevel, const std::string& line) { lines_.push_back(line); };
    return options_;
  }
  static ClusterOptions cluster() {
    ClusterOptions out{.listen = "127.0.0.1:1000"};
    return out;
  }

  sim::SimNet net_{1};
  sim::SimHost& host_ = net_.add("client");
  std::vector<std::string> lines_;
  ProcessOptions options_;
  Process process_{kClient, 1, process_options(), cluster(), seams_of(host_)};
  caf::scheduler::test_coordinator& jobs_ = jobs_of(process_);
  caf::io::network::test_multiplexer& brokers_ = brokers_of(process_);
  std::unique_ptr<Graph> graph_;
};

Tensor one(float value) { return Tensor::of<float>({value}, {1}); }

}  // namespace

TEST_CASE(
    "a run without progress is reported once, after five seconds: who, for whom, what to do") {
  Stalled stalled;
  bool ended = false;
  stalled.master->runs().start(stalled.call, {one(1)}, {}, [&](RunResult result) {
    CHECK(result.code == Errc::ok);
    ended = true;
  });
  stalled.settle();
  stalled.check_that_it_is_reported_once();
  held.get_future().get()->done({one(2)});
  stalled.settle();
  CHECK(ended);
}

TEST_CASE("a run that its caller's own thread fires is reported, too") {
  Stalled stalled;
  std::future<RunResult> run = std::async(
      std::launch::async, [&] { return stalled.master->runs().run(stalled.call, {one(1)}, {}); });
  const auto kernel = held.get_future().get();
  stalled.check_that_it_is_reported_once();
  kernel->done({one(2)});
  stalled.settle();
  CHECK(run.get().code == Errc::ok);
}

}  // namespace troupe
