// The parts of the master by themselves: preparing, installing, trying again and removing calls. An
// actor that answers like a worker plays the other process.
#include <doctest/doctest.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "actors/async/guard.hpp"
#include "actors/master/master.hpp"
#include "net/wire/graph_proto.hpp"
#include "troupe/ops.hpp"
#include "tests/support/within.hpp"

using namespace troupe;

namespace {

constexpr const char* kWorker = "/job:worker/task:0";

// Records the graphs that a worker was sent, and waits for them.
class Told {
 public:
  void graph(int64_t nodes) {
    std::lock_guard lock(mutex_);
    graphs_.push_back(nodes);
    changed_.notify_all();
  }
  // Node counts of the first `count` graphs.
  std::vector<int64_t> graphs(size_t count) {
    std::unique_lock lock(mutex_);
    REQUIRE(
        changed_.wait_for(lock, std::chrono::seconds(60), [&] { return graphs_.size() >= count; }));
    return graphs_;
  }

 private:
  std::mutex mutex_;  // guards the rest
  std::condition_variable changed_;
  std::vector<int64_t> graphs_;
};

caf::actor play_worker(caf::actor_system& system, Told& told, Errc uninstall = Errc::ok) {
  return system.spawn([&told, uninstall](caf::event_based_actor*) -> caf::behavior {
    return {
        [](const Describe&) {
          Description d;
          d.devices = {detail::concat(kWorker, "/device:cpu:0")};
          return d;
        },
        [&told](const InstallGraph& m) {
          told.graph(static_cast<int64_t>(graph_from_proto(m.bytes)->nodes().size()));
        },
        [](const InstallParts&) { return PartsInstalled{}; },
        [](const ConnectParts&) {},
        [uninstall](const Uninstall&) -> caf::result<EdgeCounts> {
          if (uninstall != Errc::ok) return to_caf(uninstall, "played");
          return EdgeCounts{};
        },
    };
  });
}

Member worker(uint64_t incarnation) { return {"worker", 0, incarnation, "127.0.0.1:1"}; }

struct Local {
  Graph graph;
  Process process{"/job:client/task:0", {.threads = 1}};
  Master master{process, graph, 7};
  ~Local() {
    master.stop();
    process.stop();
  }
};

constexpr std::chrono::milliseconds kSoon{60'000};

}  // namespace

TEST_CASE("a call whose parameters could not be made is tried again by the next one like it") {
  Local local;
  const Output y = fill(local.graph, {1}, 3);
  bool there = false;
  int asked = 0;
  local.master.calls().set_ensure([&](const std::vector<int32_t>&, const auto& done) {
    ++asked;
    if (there)
      done(Errc::ok, "");
    else
      done(Errc::peer_lost, "no ps is there");
  });
  const int64_t call = local.master.calls().prepare({y}, {});
  CHECK(local.master.runs().run(call, {}, {}).code == Errc::peer_lost);
  CHECK_THROWS_WITH_AS(local.master.calls().wait_ready(call, kSoon), "no ps is there", Error);
  there = true;
  CHECK(local.master.calls().prepare({y}, {}) == call);
  local.master.calls().wait_ready(call, kSoon);
  CHECK(local.master.runs().run(call, {}, {}).values.at(0).item<float>() == 3);
  CHECK(local.master.calls().prepare({y}, {}) == call);
  CHECK(asked == 2);
}

TEST_CASE("a call is installed again from the graph as it was prepared, while the graph grows") {
  Local local;
  Told told;
  caf::actor agent = play_worker(local.process.system(), told);
  local.process.track(agent);
  local.master.members().up(worker(1), agent);
  REQUIRE(local.master.members().wait_for({kWorker}, kSoon).empty());
  Output y = within(local.graph.scope({.device = kWorker}), [&] {
    return softmax(softmax(placeholder(local.graph, DType::f32, {1})));  // two nodes, never one
  });
  const auto prepared = static_cast<int64_t>(local.graph.nodes().size());
  local.master.calls().prepare({y}, {});
  CHECK(told.graphs(1) == std::vector<int64_t>{prepared});
  // The program adds nodes before the worker returns and while it does.
  local.master.members().down(worker(1), "killed");
  for (int i = 0; i < 10; ++i) y = identity(y);
  local.master.members().up(worker(2), agent);
  for (int i = 0; i < 1000; ++i) y = identity(y);
  CHECK(told.graphs(2) == std::vector<int64_t>{prepared, prepared});
}

namespace {

// A call on a lost worker, which its runs wait for.
struct Lost : Local {
  Told told;
  caf::actor agent = play_worker(process.system(), told);
  int64_t call = 0;
  Lost() {
    process.track(agent);
    master.members().up(worker(1), agent);
    REQUIRE(master.members().wait_for({kWorker}, kSoon).empty());
    const auto scope = graph.scope({.device = kWorker});
    call = master.calls().prepare({identity(fill(graph, {1}, 3))}, {});
    told.graphs(1);
    master.members().down(worker(1), "killed");
  }
};

}  // namespace

TEST_CASE("a run that waits for a lost worker can be taken back") {
  Lost local;
  Cancellation cancel;
  RunResult result;
  local.master.runs().start(local.call, {}, {.cancel = &cancel},
                            [&](RunResult r) { result = std::move(r); });
  CHECK(result.code == Errc::ok);  // the callback has not run yet
  cancel.cancel();
  CHECK(result.code == Errc::cancelled);
}

TEST_CASE("a session that closes waits while a run that waited is told that it is taken back") {
  Lost local;
  Cancellation cancel;
  std::atomic<bool> telling{false}, closing{false}, closed{false}, told_late{false};
  local.master.runs().start(local.call, {}, {.cancel = &cancel}, [&](const RunResult&) {
    telling = true;
    while (!closing) std::this_thread::yield();
    // A close() that does not wait for this callback ends long before this loop does.
    for (int i = 0; i < 20'000 && !closed; ++i) std::this_thread::yield();
    told_late = closed.load();
  });
  // stop() itself ends this run.
  local.master.runs().start(local.call, {}, {}, [&](const RunResult&) { closing = true; });
  std::thread cancelling([&] { cancel.cancel(); });
  while (!telling) std::this_thread::yield();
  local.master.stop();
  closed = true;
  cancelling.join();
  CHECK(closing);
  CHECK_FALSE(told_late);
}

TEST_CASE(
    "a session that closes waits for answers of its members, also for refusals, and no longer") {
  Local local;
  Told told;
  caf::actor agent = play_worker(local.process.system(), told, Errc::peer_lost);
  local.process.track(agent);
  local.master.members().up(worker(1), agent);
  REQUIRE(local.master.members().wait_for({kWorker}, kSoon).empty());
  const auto before = std::chrono::steady_clock::now();
  local.master.stop();
  CHECK(std::chrono::steady_clock::now() - before < kCloseTimeout / 2);
}
