// The log line of a long run that names the waiting process and the missing one.
#include <condition_variable>
#include <future>
#include <mutex>
#include <set>

#include "tests/support/engine/half_step.hpp"

namespace troupe {
namespace {

// Keeps the stall lines of the log.
class Stalls {
 public:
  void take(const std::string& line) {
    std::lock_guard lock(mutex_);
    if (line.find("still under way: run=") == std::string::npos) return;
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
    has(line, "if a process named here is stuck, kill it");
    has(line, "RunOptions::timeout bounds it");
  }
  CHECK(runs.size() == 2);
}

}  // namespace troupe
