// The log line of a long run that names the waiting process and the missing one.
#include <condition_variable>
#include <functional>
#include <future>
#include <mutex>
#include <set>

#include "tests/support/engine/half_step.hpp"
#include "tests/support/engine/local_cluster.hpp"
#include "tests/support/within.hpp"

namespace troupe {
namespace {

// Keeps the stall lines of the log.
class Stalls {
 public:
  void take(const std::string& line) {
    std::lock_guard lock(mutex_);
    if (line.find("still under way: run=") == std::string::npos &&
        line.find("a run has not begun: ") == std::string::npos)
      return;
    lines_.push_back(line);
    more_.notify_all();
  }
  std::vector<std::string> wait_for(size_t count) {
    std::unique_lock lock(mutex_);
    more_.wait_for(lock, std::chrono::seconds(60), [&] { return lines_.size() >= count; });
    return lines_;
  }

 private:
  std::mutex mutex_;  // guards the rest
  std::condition_variable more_;
  std::vector<std::string> lines_;
};

}  // namespace

TEST_CASE("a run that waits for 5 s is said to, once, with its nodes and what they wait for" *
          doctest::test_suite("slow")) {
  HalfStep half;
  Stalls stalls;
  ProcessOptions options{.threads = 2};
  options.log = [&](LogLevel level, const std::string& line) {
    if (level == LogLevel::warn) stalls.take(line);
  };
  Session session = Session::local(half.graph, options);
  const Callable step = session.prepare({half.loss, half.update});
  Cancellation cancel;
  // Replica 1 never pushes, so both runs wait for its round: one on this thread, one without a
  // thread.
  auto here = std::async(std::launch::async, [&] {
    return refusal_of([&] { step({}, {.step = 0, .cancel = &cancel}); }).code;
  });
  std::promise<Errc> ended;
  step.start({}, {.step = 1, .cancel = &cancel}, [&](RunResult r) { ended.set_value(r.code); });
  const std::vector<std::string> lines = stalls.wait_for(2);
  cancel.cancel();
  CHECK(here.get() == Errc::cancelled);
  CHECK(ended.get_future().get() == Errc::cancelled);
  REQUIRE(lines.size() == 2);
  std::set<std::string> runs;
  for (const std::string& line : lines) {
    CAPTURE(line);
    runs.insert(line.substr(line.find("run="), 6));
    has(line, " s, not ended in /job:local/task:0; /job:local/task:0 waits: tower0/");
    has(line, " of w replica 0 step ");  // the oldest request, a pull or a push
    has(line, " waits for /job:local/task:0 since ");
    has(line, "w waits for the gradient of step 0 of replica 1");
    has(line, "if the process at their end is stuck, kill it");
    has(line, "RunOptions::timeout bounds it");
  }
  CHECK(runs.size() == 2);
}

TEST_CASE("runs that wait for a call's installation are said to, with the missing process" *
          doctest::test_suite("slow")) {
  const std::string worker = "/job:worker/task:0";
  LocalCluster cluster({worker});
  Graph g;
  const Output x = placeholder(g, DType::f32, {});
  const Output there = within(g.scope({.device = worker}), [&] { return add(x, x); });
  Stalls stalls;
  Session session = cluster.connect(g, [&](LogLevel level, const std::string& line) {
    if (level == LogLevel::warn) stalls.take(line);
  });
  const Callable step = session.prepare({there}, {x});
  cluster.process(0).stop();
  Cancellation cancel;
  std::promise<Errc> ended[2];
  const std::function<void(size_t)> begin = [&](size_t i) {
    step.start({Tensor::of<float>({1}, {})}, {.cancel = &cancel}, [&, i](RunResult result) {
      if (result.code == Errc::peer_lost)  // it began before the loss was known
        begin(i);
      else
        ended[i].set_value(result.code);
    });
  };
  begin(0);
  begin(1);
  const std::vector<std::string> lines = stalls.wait_for(1);
  cancel.cancel();
  for (auto& end : ended) CHECK(end.get_future().get() == Errc::cancelled);
  REQUIRE(lines.size() == 1);  // they wait for one thing
  has(lines[0], "a run has not begun: since=5");
  has(lines[0], " s, its call is not installed in /job:worker/task:0; ");
  has(lines[0], "; /job:worker/task:0 is not there; ");
}

}  // namespace troupe
