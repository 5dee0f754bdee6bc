// The end of a call that misses its deadline (RunOptions::timeout).
#include <chrono>

#include <caf/all.hpp>

#include "actors/async/messages.hpp"
#include "tests/support/members.hpp"
#include "tests/support/engine/half_step.hpp"
#include "tests/support/engine/local_cluster.hpp"
#include "tests/support/within.hpp"

namespace troupe {
namespace {

// Step 1. A HalfStep cannot even read its parameters, since no replica has done step 0.
constexpr RunOptions kShort{.timeout = std::chrono::milliseconds(50), .step = 1};
const std::string kWorker = "/job:worker/task:0";

// The error of a call with kShort. Checks that it ends at its deadline, neither before nor much
// later.
Refusal end_of(const Callable& step) {
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  Refusal end = refusal_of([&] { step({}, kShort); });
  const auto took = Clock::now() - begin;
  CHECK(took >= kShort.timeout);
  CHECK(took < std::chrono::seconds(20));
  return end;
}

// The number of running steps in a process.
int64_t running_steps(Process& process) {
  int64_t out = -1;
  caf::scoped_actor self(process.system());
  self->request(process.agent(), std::chrono::seconds(60), Describe{})
      .receive([&](const Description& d) { out = d.running_steps; }, [](const caf::error&) {});
  return out;
}

}  // namespace

TEST_CASE("a step on its caller's thread ends at its deadline, naming the node it waits for") {
  HalfStep half;
  Session session = Session::local(half.graph, {.threads = 2});
  const Callable step = session.prepare({half.loss, half.update});
  for (int i = 0; i < 2; ++i) {
    const Refusal end = end_of(step);
    CHECK(end.code == Errc::timeout);
    CHECK(end.text ==
          "the step did not end within 50 ms; it waits for tower0/w; give it more time with "
          "RunOptions::timeout");
  }
  CHECK(session.run({half.loss})[0].item<float>() == 1);
}

TEST_CASE("a step on a cluster ends at its deadline, in all processes, naming who holds it") {
  LocalCluster cluster({"/job:ps/task:0", kWorker});
  HalfStep half(kWorker);
  Session session = cluster.connect(half.graph);
  const Callable step = session.prepare({half.loss, half.update});
  for (int i = 0; i < 2; ++i) {
    const Refusal end = end_of(step);
    CHECK(end.code == Errc::timeout);
    has(end.text, "the step did not end in time; it waits for ");
    has(end.text, kWorker);
    has(end.text, "; give it more time with RunOptions::timeout, or look at the log there");
    CHECK(running_steps(cluster.process(1)) == 0);  // the worker was told
  }
  CHECK(session.run({half.loss})[0].item<float>() == 1);
}

TEST_CASE("a call that waits for a lost worker ends at its deadline with the worker's name") {
  LocalCluster cluster({"/job:ps/task:0", kWorker});
  Graph g;
  const Output y = within(g.scope({.device = kWorker}), [&] { return fill(g, {1}, 5); });
  Session session = cluster.connect(g);
  const Callable step = session.prepare({y});
  cluster.process(1).stop();
  while (is_up(session, kWorker)) std::this_thread::yield();
  const Refusal end = end_of(step);
  CHECK(end.code == Errc::peer_lost);
  CHECK(end.text == "waited in vain for " + kWorker + "; start it again");
  cluster.restart(1);
  CHECK(step()[0].item<float>() == 5);
}

}  // namespace troupe
