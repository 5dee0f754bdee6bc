// Nodes in the process of a service: the guarantees of run_node() beyond those of the program.
#include <future>
#include <thread>

#include "troupe/cluster.hpp"
#include "tests/support/engine/own_op.hpp"
#include "tests/support/refusal.hpp"
#include "tests/support/within.hpp"

namespace troupe {
namespace {

// The project's ops and one more.
std::shared_ptr<const Registry> with_twice() {
  return ops_with({own_op("Twice", {DeviceKind::cpu, DType::f32, [](KernelContext& c) {
                                      const float* x = c.input(0).data<float>();
                                      float* y =
                                          c.output(0, c.input(0).shape()).mutable_data<float>();
                                      for (int64_t i = 0; i < c.input(0).size(); ++i)
                                        y[i] = 2 * x[i];
                                    }})});
}

NodeOptions node_options(const std::string& job, std::vector<std::string> seeds) {
  NodeOptions out{.job = job, .seeds = std::move(seeds)};
  out.process.threads = 1;
  return out;
}

// A node on a thread; the destructor stops it.
class RunningNode {
 public:
  explicit RunningNode(NodeOptions options) {
    auto listening = std::make_shared<std::promise<std::string>>();
    options.on_listening = [listening](const std::string& a) { listening->set_value(a); };
    thread_ = std::thread([this, options] { run_node(options, stop_); });
    address = listening->get_future().get();
  }
  ~RunningNode() {
    stop_ = true;
    thread_.join();
  }
  std::string address;

 private:
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace

TEST_CASE("a node with other ops is refused with the op, the remedy and exit code 78") {
  NodeOptions seed = node_options("ps", {});
  seed.process.ops = with_twice();
  const RunningNode first(seed);
  std::atomic<bool> stop{false};
  const Refusal refusal =
      refusal_of([&] { run_node(node_options("worker", {first.address}), stop); });
  CHECK(exit_code(refusal.code) == 78);
  has(refusal.text,
      "/job:ps/task:0 and /job:worker/task:0 have different ops: only /job:ps/task:0 has Twice; "
      "start both with the same --plugin files");
}

TEST_CASE("an op of one's own runs on nodes that have it") {
  const auto ops = with_twice();
  NodeOptions options = node_options("worker", {});
  options.process.ops = ops;
  const RunningNode worker(options);
  Graph graph(ops);
  Output x = placeholder(graph, DType::f32, {2}, "x");
  const Output y = within(graph.scope({.device = "/job:worker/task:0"}),
                          [&] { return graph.add({.op = "Twice", .inputs = {x}}); });
  Session session = Session::connect(graph, worker.address);
  const Tensor got = session.run({y}, {{x, Tensor::of<float>({1, 3}, {2})}})[0];
  CHECK(got.data<float>()[0] == 2);
  CHECK(got.data<float>()[1] == 6);
}

TEST_CASE("a node that loses a device ends with exit code 69, and the run may be tried again") {
  const auto run = [](KernelContext&) { throw Error(Errc::device_lost, "it fell off the bus"); };
  const auto ops = ops_with({own_op("FallsOff", {DeviceKind::cpu, DType::f32, run})});
  NodeOptions options = node_options("worker", {});
  options.process.ops = ops;
  std::promise<std::string> listening;
  options.on_listening = [&](const std::string& address) { listening.set_value(address); };
  const std::atomic<bool> stop{false};
  auto ended =
      std::async(std::launch::async, [&] { return refusal_of([&] { run_node(options, stop); }); });
  Graph graph(ops);
  Output x = placeholder(graph, DType::f32, {2}, "x");
  const Output y = within(graph.scope({.device = "/job:worker/task:0"}),
                          [&] { return graph.add({.op = "FallsOff", .inputs = {x}}); });
  Session session = Session::connect(graph, listening.get_future().get());
  CHECK(code_of([&] {
          session.run({y}, {{x, Tensor::of<float>({1, 3}, {2})}});
        }) == Errc::peer_lost);
  const Refusal refusal = ended.get();
  CHECK(exit_code(refusal.code) == 69);
  CHECK_MESSAGE(refusal.text.starts_with("device /job:worker/task:0/device:cpu:0 is lost: "),
                refusal.text);
  has(refusal.text, "it fell off the bus; its process has to begin anew");
}

TEST_CASE("a node whose task runs already is refused with exit code 78" *
          doctest::test_suite("slow")) {
  const RunningNode first(node_options("ps", {}));
  std::atomic<bool> stop{false};
  const Refusal refusal = refusal_of([&] { run_node(node_options("ps", {first.address}), stop); });
  CHECK(exit_code(refusal.code) == 78);
  has(refusal.text, "/job:ps/task:0");
}

TEST_CASE("a node is the newest of its task by its number, whatever the clock says" *
          doctest::test_suite("slow")) {
  std::atomic<int> met{0};
  NodeOptions ps = node_options("ps", {});
  ps.process.log = [&](LogLevel, const std::string& line) {
    if (line.starts_with("peer up: peer=/job:worker/task:0")) ++met;
  };
  const RunningNode first(ps);
  NodeOptions options = node_options("worker", {first.address});
  constexpr uint64_t in_ten_years = uint64_t{2'100'000'000'000'000} << 8;
  std::atomic<bool> stop{false};
  const auto refused = [&] {
    const Refusal refusal = refusal_of([&] { run_node(options, stop); });
    CHECK(exit_code(refusal.code) == 78);
    return refusal.text;
  };
  options.incarnation = in_ten_years;
  {
    const RunningNode worker(options);
    while (met < 1) std::this_thread::yield();
  }
  options.incarnation = 0;
  has(refused(), "; if the clock was set back, give --incarnation a larger one");
  options.incarnation = in_ten_years + 1;
  const RunningNode worker(options);
  while (met < 2) std::this_thread::yield();
}

TEST_CASE("a node tells its supervisor that it is alive") {
  std::promise<void> thrice;
  int beats = 0;  // counted on the network thread
  NodeOptions options = node_options("ps", {});
  options.alive_every = std::chrono::milliseconds(1);
  options.on_alive = [&] {
    if (++beats == 3) thrice.set_value();
  };
  const RunningNode node(options);
  CHECK(thrice.get_future().wait_for(std::chrono::seconds(20)) == std::future_status::ready);
}

TEST_CASE("a node without a number draws one that nobody has" * doctest::test_suite("slow")) {
  const RunningNode ps(node_options("ps", {}));
  CHECK(draw_task(node_options("ps", {ps.address})) == 1);
  CHECK(draw_task(node_options("worker", {ps.address})) == 0);
  NodeOptions other = node_options("worker", {ps.address});
  other.cluster = "other";
  CHECK_THROWS_WITH_AS(draw_task(other), doctest::Contains("of cluster"), Error);
  CHECK_THROWS_WITH_AS(draw_task(node_options("worker", {"127.0.0.1:1"}), std::chrono::seconds(1)),
                       doctest::Contains("no member of cluster"), Error);
}

}  // namespace troupe
