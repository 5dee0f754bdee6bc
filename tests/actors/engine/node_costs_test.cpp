// The cost of a node is kept with it: a call that is prepared later, or installed again, hands its
// heavy ops to other lanes in its first step. And heavy ops do not keep messages waiting.

#include <condition_variable>
#include <future>
#include <latch>
#include <mutex>
#include <set>
#include <thread>

#include "actors/master/session_state.hpp"
#include "placement/node_costs.hpp"
#include "tests/support/members.hpp"
#include "tests/support/engine/local_cluster.hpp"
#include "tests/support/within.hpp"
#include "troupe/ops.hpp"

namespace troupe {
namespace {

constexpr std::chrono::seconds kPatience{20};  // nobody waits that long for what does come

// The work and the counts of Heavy kernels.
struct Heavy {
  enum What { work, meet, listen };
  std::mutex mutex;  // guards the rest
  std::condition_variable changed;
  What what = work;
  int inside = 0;          // kernels that have come to meet
  int alone = 0;           // that nobody came to meet
  bool listening = false;  // one has begun to listen
  bool told = false, heard = false;
  std::set<std::thread::id> threads;

  void run() {
    std::unique_lock lock(mutex);
    threads.insert(std::this_thread::get_id());
    if (what == work) {
      const auto until = std::chrono::steady_clock::now() + std::chrono::microseconds(300);
      lock.unlock();
      while (std::chrono::steady_clock::now() < until) {
      }
    } else if (what == meet) {
      ++inside;
      changed.notify_all();
      if (!changed.wait_for(lock, kPatience, [this] { return inside >= 2; })) ++alone;
    } else {
      listening = true;
      changed.notify_all();
      heard = changed.wait_for(lock, kPatience, [this] { return told; });
    }
  }
  void becomes(What next) {
    std::lock_guard lock(mutex);
    what = next;
    inside = alone = 0;
  }
  // Two of them have run at the same time.
  bool met() {
    std::lock_guard lock(mutex);
    return inside == 2 && alone == 0;
  }
};
std::unique_ptr<Heavy> heavy;

std::shared_ptr<const Registry> heavy_ops() {
  static const std::shared_ptr<const Registry> all = [] {
    auto r = std::make_shared<Registry>();
    const auto same = [](const InferContext& ctx) { return std::vector<Shape>{ctx.input(0)}; };
    r->add({.name = "Fed",
            .outputs = {"y"},
            .infer_dtypes = [](const InferContext&) { return std::vector<DType>{DType::f32}; },
            .infer_shapes = [](const InferContext&) { return std::vector<Shape>{{1}}; }});
    r->add({.name = "Heavy",
            .inputs = {"x"},
            .outputs = {"y"},
            .attrs = {{"which", AttrKind::integer}},
            .infer_shapes = same,
            .kernels = {{DeviceKind::cpu, DType::none, [](KernelContext& ctx) {
                           heavy->run();
                           ctx.set_output(0, ctx.input(0));
                         }}}});
    r->add({.name = "First",
            .inputs = {"x..."},
            .outputs = {"y"},
            .infer_shapes = same,
            .kernels = {{DeviceKind::cpu, DType::none,
                         [](KernelContext& ctx) { ctx.set_output(0, ctx.input(0)); }}}});
    return r;
  }();
  return all;
}

// Two heavy nodes side by side, and one that reads both. Costs are kept by name, so that each test
// has names of its own.
struct TwoHeavy {
  Graph graph{heavy_ops()};
  Output x, a, b, both;
  explicit TwoHeavy(const std::string& name) {
    heavy = std::make_unique<Heavy>();
    x = graph.add({"Fed"});
    a = graph.add({"Heavy", {x}, {{"which", int64_t{0}}}, name + "a"});
    b = graph.add({"Heavy", {x}, {{"which", int64_t{1}}}, name + "b"});
    both = graph.add({"First", {a, b}});
  }
};

const std::vector<Tensor> kFeed = {Tensor::of<float>({1}, {1})};

// Steps until the nodes have been measured: the second is timed.
void warm_up(const Callable& step) {
  for (int i = 0; i < 2; ++i) step(kFeed);
}

// The threads of an actor system's scheduler.
std::set<std::thread::id> lanes_of(caf::actor_system& system, int count) {
  struct All {
    std::mutex mutex;
    std::set<std::thread::id> ids;
    std::latch there, gone;
    explicit All(int n) : there(n), gone(n) {}
  };
  auto all = std::make_shared<All>(count);
  for (int i = 0; i < count; ++i)
    system.spawn([all](caf::event_based_actor*) {
      {
        std::lock_guard lock(all->mutex);
        all->ids.insert(std::this_thread::get_id());
      }
      all->there.arrive_and_wait();  // nobody takes two of these
      all->gone.count_down();
    });
  all->gone.wait();
  return all->ids;
}

bool all_of_these(const std::set<std::thread::id>& some, const std::set<std::thread::id>& all) {
  return !some.empty() && std::includes(all.begin(), all.end(), some.begin(), some.end());
}

}  // namespace

TEST_CASE("a call with other fetches begins with what its nodes have cost") {
  TwoHeavy g("other_fetches/");
  Session session = Session::local(g.graph, {.threads = 2});
  warm_up(session.prepare({g.a, g.b}, {g.x}));
  heavy->becomes(Heavy::meet);
  session.prepare({g.both}, {g.x})(kFeed);
  CHECK(heavy->met());
}

TEST_CASE("another session of a graph begins with what its nodes have cost in the first") {
  TwoHeavy g("another_session/");
  {
    Session session = Session::local(g.graph, {.threads = 2});
    warm_up(session.prepare({g.both}, {g.x}));
  }
  Session session = Session::local(g.graph, {.threads = 2});
  const Callable step = session.prepare({g.both}, {g.x});
  heavy->becomes(Heavy::meet);
  step(kFeed);
  CHECK(heavy->met());
}

TEST_CASE("a call that is installed again after a loss begins with what its nodes have cost") {
  LocalCluster cluster({"/job:worker/task:0", "/job:worker/task:1"}, /*threads=*/2, heavy_ops());
  TwoHeavy g("after_a_loss/");
  Output end;
  {
    const auto there = g.graph.scope({.device = "/job:worker/task:0"});
    const Output a = g.graph.add({"Heavy", {g.x}, {{"which", int64_t{2}}}, "after_a_loss/c"});
    const Output b = g.graph.add({"Heavy", {g.x}, {{"which", int64_t{3}}}, "after_a_loss/d"});
    end = g.graph.add({"First", {a, b}});
  }
  {
    const auto there = g.graph.scope({.device = "/job:worker/task:1"});
    end = g.graph.add({"First", {end}});
  }
  Session session = cluster.connect(g.graph);
  const Callable step = session.prepare({end}, {g.x});
  warm_up(step);
  cluster.process(1).stop();  // it is not the one that has the heavy nodes
  while (is_up(session, "/job:worker/task:1")) std::this_thread::yield();
  cluster.restart(1);
  heavy->becomes(Heavy::meet);
  step(kFeed);
  CHECK(heavy->met());
}

TEST_CASE("what nodes cost stands in the drawing of their call") {
  TwoHeavy g("drawing/");
  Session session = Session::local(g.graph, {.threads = 2});
  const Callable step = session.prepare({g.both}, {g.x});
  CHECK(session.dot(step).find("drawing/a\\nHeavy\"") != std::string::npos);
  warm_up(step);
  const std::string dot = session.dot(step);
  CHECK_MESSAGE(dot.find("drawing/a\\nHeavy\\n") != std::string::npos, dot);
  CHECK_MESSAGE(dot.find(" us\"") != std::string::npos, dot);
}

TEST_CASE("costs of nodes that differ in name, type or device kind are different ones") {
  Graph g;
  const Output x = placeholder(g, DType::f32, {2}, "x"), y = placeholder(g, DType::f32, {3}, "y");
  const Node &one = g.node(add(x, x).node), &other = g.node(add(x, x).node),
             &wider = g.node(add(y, y).node);
  NodeCosts costs;
  costs.of(one, DeviceKind::cpu) = 7;
  CHECK(costs.of(one, DeviceKind::cpu) == 7);
  CHECK(costs.of(one, DeviceKind::shadow) == 0);
  CHECK(costs.of(other, DeviceKind::cpu) == 0);
  CHECK(costs.of(wider, DeviceKind::cpu) == 0);
}

TEST_CASE("a product that no core ends in 20 us goes to a lane before it was measured") {
  Graph g;
  const Output small = fill(g, {64, 64}, 1), large = fill(g, {512, 512}, 1);
  CHECK(known_flops(g.node(matmul(small, small).node)) == 2 * 64 * 64 * 64);
  CHECK(known_flops(g.node(matmul(large, large).node)) > kManyFlops);
  const Output open = placeholder(g, DType::f32, {-1, 512}, "x");
  CHECK(known_flops(g.node(matmul(open, large).node)) == 0);
}

TEST_CASE("while a heavy op runs on one lane, another one answers messages") {
  TwoHeavy g("messages/");
  Session session = Session::local(g.graph, {.threads = 2});
  const Callable step = session.prepare({g.a}, {g.x});
  heavy->becomes(Heavy::listen);
  std::promise<void> ended;
  step.start(kFeed, {}, [&](RunResult) { ended.set_value(); });
  {
    std::unique_lock lock(heavy->mutex);
    REQUIRE(heavy->changed.wait_for(lock, kPatience, [] { return heavy->listening; }));
  }
  session.state().process->system().spawn([](caf::event_based_actor*) {
    std::lock_guard lock(heavy->mutex);
    heavy->told = true;
    heavy->changed.notify_all();
  });
  ended.get_future().get();
  CHECK(heavy->heard);
}

TEST_CASE("heavy ops run on lanes alone, whoever has begun the run or brought their inputs") {
  LocalCluster cluster({"/job:worker/task:0"}, /*threads=*/2, heavy_ops());
  TwoHeavy g("lanes/");
  const Output there = within(g.graph.scope({.device = "/job:worker/task:0"}), [&] {
    const Output a = g.graph.add({"Heavy", {g.x}, {{"which", int64_t{2}}}, "lanes/c"});
    return g.graph.add({"First", {a, g.b}});  // of another process
  });
  // Here, of what has come from there.
  const Output end = g.graph.add({"Heavy", {there}, {{"which", int64_t{3}}}, "lanes/d"});
  Session session = cluster.connect(g.graph);
  const Callable step = session.prepare({end}, {g.x});
  std::set<std::thread::id> lanes = lanes_of(session.state().process->system(), 1);
  lanes.merge(lanes_of(cluster.process(0).system(), 2));
  REQUIRE(lanes.size() == 3);
  // Each run begins where the one before has ended: on a lane, or on the network's thread.
  std::promise<void> all_ended;
  int left = 70;
  std::function<void(RunResult)> next = [&](RunResult result) {
    CHECK(result.code == Errc::ok);
    if (--left > 0)
      step.start(kFeed, {}, next);
    else
      all_ended.set_value();
  };
  step.start(kFeed, {}, next);
  all_ended.get_future().get();
  CHECK(all_of_these(heavy->threads, lanes));
}

}  // namespace troupe
