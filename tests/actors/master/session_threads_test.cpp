// The threads of a session: any number of callers at once, also before the first prepare(); and a
// small local graph on the caller's own thread.

#include <atomic>
#include <future>
#include <latch>
#include <mutex>
#include <set>
#include <thread>

#include "actors/master/session_state.hpp"
#include "tests/support/engine/local_cluster.hpp"
#include "tests/support/within.hpp"
#include "tests/support/threads.hpp"
#include "troupe/ops.hpp"

namespace troupe {
namespace {

constexpr int kThreads = 4;
constexpr int kCalls = 25;  // by each thread

Tensor scalar(int v) { return Tensor::of<float>({static_cast<float>(v)}, {1}); }

// Starts threads that run `y` of `x` at once, before it is prepared. Returns how many results were
// not 2 x + 1.
int wrong_results(Session& session, const Output& x, const Output& y) {
  std::atomic<int> wrong{0};
  std::latch begin(kThreads);
  on_threads(kThreads, [&](int t) {
    begin.arrive_and_wait();
    for (int i = 0; i < kCalls; ++i) {
      const int v = t * 1000 + i;
      try {
        const Tensor got = session.run({y}, {{x, scalar(v)}}).at(0);
        if (got.item<float>() != static_cast<float>(2 * v + 1)) ++wrong;
      } catch (const Error& e) {
        MESSAGE(e.what());
        ++wrong;
      }
    }
  });
  return wrong;
}

// x through so many nodes that preparing them takes longer than starting a thread.
Output far(Output x) {
  for (int i = 0; i < 500; ++i) x = identity(x);
  return x;
}

// Checks that all threads ran one call, which was installed once.
void check_prepared_once(const Session& session) {
  const std::string state = session.describe();
  const size_t call = state.find("\ncall ");
  REQUIRE(call != std::string::npos);
  CHECK(state.find("\ncall ", call + 1) == std::string::npos);
  const std::string line = state.substr(call + 1, state.find('\n', call + 1) - call - 1);
  CHECK(line.substr(line.rfind(' ')) == " 1");  // the first executable
}

}  // namespace

TEST_CASE("threads that run the same fetches first, all at once, prepare them once") {
  for (int round = 0; round < 20; ++round) {
    Graph g;
    const Output x = placeholder(g, DType::f32, {1}, "x");
    const Output y = far(x) * 2.0 + 1.0;
    Session session = Session::local(g, {.threads = 2});
    CHECK(wrong_results(session, x, y) == 0);
    check_prepared_once(session);
  }
}

TEST_CASE("the same on a cluster, with a step in three processes") {
  LocalCluster cluster({"/job:worker/task:0", "/job:worker/task:1"});
  for (int round = 0; round < 5; ++round) {
    Graph g;
    const Output x = placeholder(g, DType::f32, {1}, "x");
    const Output twice =
        within(g.scope({.device = "/job:worker/task:0"}), [&] { return far(x) * 2.0; });
    const Output y = within(g.scope({.device = "/job:worker/task:1"}), [&] { return twice + 1.0; });
    Session session = cluster.connect(g);
    CHECK(wrong_results(session, x, y) == 0);
    check_prepared_once(session);
  }
}

namespace {

// The threads that ran kernels of Trace.
struct Trace {
  static inline std::mutex mutex;
  static inline std::set<std::thread::id> threads;  // guarded by mutex
  static void kernel(KernelContext& ctx) {
    ctx.set_output(0, ctx.input(0));
    std::lock_guard lock(mutex);
    threads.insert(std::this_thread::get_id());
  }
  static std::set<std::thread::id> take() {
    std::lock_guard lock(mutex);
    return std::exchange(threads, {});
  }
};

std::shared_ptr<const Registry> trace_ops() {
  const auto f32 = [](const InferContext&) { return std::vector<DType>{DType::f32}; };
  auto registry = std::make_shared<Registry>();
  registry->add({.name = "Fed",
                 .outputs = {"y"},
                 .infer_dtypes = f32,
                 .infer_shapes = [](const InferContext&) { return std::vector<Shape>{{1}}; }});
  registry->add(
      {.name = "Trace",
       .inputs = {"x"},
       .outputs = {"y"},
       .infer_shapes = [](const InferContext& ctx) { return std::vector<Shape>{ctx.input(0)}; },
       .kernels = {{DeviceKind::cpu, DType::none, Trace::kernel}}});
  return registry;
}

}  // namespace

TEST_CASE("a small local graph runs on its caller's own thread, however busy the lanes are") {
  Graph g(trace_ops());
  const Output x = g.add({"Fed"});
  Output y = x;
  for (int i = 0; i < 3; ++i) y = g.add({"Trace", {y}});
  Session session = Session::local(g, {.threads = 1});
  const Callable step = session.prepare({y}, {x});
  const auto call = [&] {
    const std::set<std::thread::id> mine = {std::this_thread::get_id()};
    int elsewhere = 0;
    for (int i = 0; i < 100; ++i) {
      const bool by_run = i % 2 == 1;
      const Tensor got = by_run ? session.run({y}, {{x, scalar(i)}})[0] : step({scalar(i)})[0];
      elsewhere += got.item<float>() != static_cast<float>(i) || Trace::take() != mine;
    }
    return elsewhere;
  };
  REQUIRE(call() == 0);
  REQUIRE(std::async(std::launch::async, call).get() == 0);
  std::promise<void> busy, go_on;
  session.state().process->system().spawn(
      [&busy, held = go_on.get_future().share()](caf::event_based_actor*) {
        busy.set_value();
        held.wait();
      });
  busy.get_future().wait();
  CHECK(call() == 0);
  CHECK(std::async(std::launch::async, call).get() == 0);
  go_on.set_value();
}

TEST_CASE("a session is closed by another thread than made it, which lives on") {
  Graph graph;
  const Output y = constant(graph, scalar(3)) + 1.0f;
  std::promise<Session> made;
  std::promise<void> go_on;
  std::thread maker([&] {
    made.set_value(Session::local(graph, {.threads = 1}));
    go_on.get_future().wait();
  });
  {
    Session session = made.get_future().get();
    CHECK(session.run({y})[0].item<float>() == 4);
  }
  go_on.set_value();
  maker.join();
}

}  // namespace troupe
