// A process whose link was lost and made again: its master installs the calls there again, and
// nothing of the old calls is left.

#include <chrono>
#include <condition_variable>
#include <deque>
#include <future>
#include <mutex>
#include <thread>

#include <caf/all.hpp>

#include "actors/async/messages.hpp"
#include "actors/master/session_state.hpp"
#include "tests/support/engine/own_op.hpp"
#include "tests/support/engine/local_cluster.hpp"

namespace troupe {
namespace {

constexpr std::chrono::seconds kSoon{60};
const std::string kWorker = "/job:worker/task:0";

// Firings that are never answered.
struct Stuck {
  using Firing = std::shared_ptr<AsyncContext>;
  std::mutex mutex;  // guards the rest
  std::condition_variable changed;
  std::deque<Firing> firings;

  void add(Firing firing) {
    std::lock_guard lock(mutex);
    firings.push_back(std::move(firing));
    changed.notify_all();
  }
  Firing next() {
    std::unique_lock lock(mutex);
    REQUIRE(changed.wait_for(lock, kSoon, [&] { return !firings.empty(); }));
    Firing out = std::move(firings.front());
    firings.pop_front();
    return out;
  }
} stuck;

std::shared_ptr<const Registry> ops() {
  return ops_with({own_op("Stay", {.start = [](auto firing) { stuck.add(std::move(firing)); }})});
}

// True if the firing's step no longer waits for it.
bool is_let_go(const AsyncContext& firing) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (firing.waits() && std::chrono::steady_clock::now() < end) std::this_thread::yield();
  return !firing.waits();
}

Description describe(Process& process) {
  Description out{.executors = -1};
  caf::scoped_actor self(process.system());
  self->request(process.agent(), kSoon, Describe{})
      .receive([&](const Description& d) { out = d; }, [](const caf::error&) {});
  return out;
}

}  // namespace

TEST_CASE("a process that comes back drops what it had of a call, and ends the steps there") {
  LocalCluster cluster({kWorker}, 1, ops());
  Process& worker = cluster.process(0);
  Graph g(ops());
  const Output x = placeholder(g, DType::f32, {});
  Output waits, twice;
  {
    const auto scope = g.scope({.device = kWorker});
    waits = g.add({.op = "Stay", .inputs = {x}});
    twice = x + x;
  }
  Session session = cluster.connect(g);
  const Callable first = session.prepare({waits}, {x}), second = session.prepare({twice}, {x});
  const int64_t executors = describe(worker).executors;
  const Tensor one = Tensor::scalar(1.0F);

  Master& master = *session.state().master;
  const Member member{"worker", 0, worker.incarnation(), cluster.address(0)};
  const auto agent = caf::actor_cast<caf::actor>(master.members().agents().at(kWorker));
  for (int round = 0; round < 3; ++round) {
    std::promise<RunResult> ended;
    first.start({one}, {}, [&](RunResult result) { ended.set_value(std::move(result)); });
    const Stuck::Firing firing = stuck.next();
    master.members().down(member, "the link was cut");
    CHECK(ended.get_future().get().code == Errc::peer_lost);
    CHECK(firing->waits());  // the process does not know of the loss
    master.members().up(member, agent);
    session.prepare({waits}, {x});  // installed again
    session.prepare({twice}, {x});
    const Description now = describe(worker);
    CHECK(now.executors == executors);
    CHECK(now.running_steps == 0);
    CHECK(is_let_go(*firing));
    CHECK(second({one})[0].item<float>() == 2.0F);  // the step of another call stays
  }
  std::promise<RunResult> ended;
  first.start({one}, {}, [&](RunResult result) { ended.set_value(std::move(result)); });
  CHECK(stuck.next()->done({one}));
  CHECK(ended.get_future().get().code == Errc::ok);
}

}  // namespace troupe
