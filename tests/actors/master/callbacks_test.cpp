// Functions of the program that block or throw while a session of a cluster calls them: the links
// live on, and others are told.
#include <atomic>
#include <chrono>
#include <future>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/support/engine/local_cluster.hpp"
#include "tests/support/engine/own_op.hpp"

namespace troupe {
namespace {

using namespace std::chrono_literals;

const std::string kLost = "/job:worker/task:0", kStays = "/job:worker/task:1";

// Never answers; the step ends with the process.
std::shared_ptr<const Registry> ops() {
  static std::mutex mutex;
  static std::vector<std::shared_ptr<AsyncContext>> firings;
  return ops_with({own_op("Stay", {.start = [](auto firing) {
                            std::lock_guard lock(mutex);
                            firings.push_back(std::move(firing));
                          }})});
}

// A session with one call that waits for the process kLost, and one that needs kStays alone.
struct TwoWorkers {
  LocalCluster cluster{{kStays, kLost}, 1, ops()};
  Graph graph{ops()};
  const Output x = placeholder(graph, DType::f32, {});
  Output waits, twice;
  std::promise<void> told, go_on;

  TwoWorkers() {
    {
      const auto scope = graph.scope({.device = kLost});
      waits = graph.add({.op = "Stay", .inputs = {x}});
    }
    const auto scope = graph.scope({.device = kStays});
    twice = x + x;
  }
  void block() {
    told.set_value();
    go_on.get_future().wait();
  }
  // kLost ends, which blocks a function of the program. Then the other call works, or -1 comes.
  float value_after_loss(const Callable& call) {
    cluster.process(1).stop();
    told.get_future().wait();
    float out = -1;
    try {
      out = call({Tensor::scalar(1.0F)}, {.timeout = 20s})[0].item<float>();
    } catch (const Error& e) {
      MESSAGE(e.what());
    }
    go_on.set_value();
    return out;
  }
};

TEST_CASE_FIXTURE(TwoWorkers, "a callback that blocks holds up no links") {
  Session session = cluster.connect(graph);
  const Callable first = session.prepare({waits}, {x}), second = session.prepare({twice}, {x});
  Errc code = Errc::ok;
  first.start({Tensor::scalar(1.0F)}, {}, [&](const RunResult& result) {
    code = result.code;
    block();
  });
  CHECK(value_after_loss(second) == 2.0F);
  session.close();  // waits for the callback
  CHECK(code == Errc::peer_lost);
}

TEST_CASE_FIXTURE(TwoWorkers, "a log sink that blocks holds up no links, and gets all lines") {
  std::atomic<bool> blocked{false};
  std::vector<std::string> after;
  const LogSink sink = [&](LogLevel, const std::string& line) {
    if (blocked) after.push_back(line);
    if (line.find("peer down") != line.npos && !blocked.exchange(true)) block();
  };
  Session session = cluster.connect(graph, sink, {.process = {.log_level = LogLevel::debug}});
  const Callable second = session.prepare({twice}, {x});
  CHECK(value_after_loss(second) == 2.0F);
  session.close();
  CHECK(!after.empty());  // the end of the other link
}

TEST_CASE_FIXTURE(TwoWorkers, "callbacks of a cluster's session run one after the other") {
  Session session = cluster.connect(graph);
  const Callable second = session.prepare({twice}, {x});
  std::atomic<int> inside{0}, most{0}, count{0};
  constexpr int kCalls = 50;
  for (int i = 0; i < kCalls; ++i)
    second.start({Tensor::scalar(1.0F)}, {}, [&](const RunResult& result) {
      const int now = ++inside;
      if (now > most) most = now;
      count += result.code == Errc::ok;
      --inside;
      throw std::runtime_error("a bug of the program");
    });
  CHECK(second({Tensor::scalar(2.0F)})[0].item<float>() == 4.0F);
  while (count < kCalls) std::this_thread::yield();
  CHECK(most == 1);
}

}  // namespace
}  // namespace troupe
