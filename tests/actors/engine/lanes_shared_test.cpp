// Lanes that serve one step while others compute all the time: a step whose kernels wait in the
// queue of op jobs gets a lane in the end, however busy callers and lanes are; and an actor system
// that is not ours, with another scheduler, runs costly steps, too.
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <future>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include <caf/all.hpp>

#include "tests/support/engine/own_op.hpp"
#include "troupe/caf.hpp"
#include "troupe/session.hpp"

namespace troupe {
namespace {

constexpr std::chrono::seconds kNever{20};  // that long only where the test fails

// Kernels that are under way until they are let go.
struct Held {
  std::mutex mutex;
  std::condition_variable changed;
  int inside = 0;
  bool open = false;

  void stay() {
    std::unique_lock lock(mutex);
    ++inside;
    changed.notify_all();
    changed.wait_for(lock, kNever, [&] { return open; });
  }
  bool await(int n) {
    std::unique_lock lock(mutex);
    return changed.wait_for(lock, kNever, [&] { return inside >= n; });
  }
  void let_go() {
    std::lock_guard lock(mutex);
    open = true;
    changed.notify_all();
  }
};
std::unique_ptr<Held> held;

// Long enough to be measured as costly, and of so little that no plan of memory has a say.
void work(KernelContext& ctx) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::microseconds(300);
  while (std::chrono::steady_clock::now() < until) {
  }
  ctx.set_output(0, ctx.input(0));
}

// Two kernels that are to be under way at once.
std::atomic<int> meeting = 0;
std::atomic<bool> met = true;

void meet(KernelContext& ctx) {
  const auto until = std::chrono::steady_clock::now() + kNever;
  ++meeting;
  while (!met && meeting < 2 && std::chrono::steady_clock::now() < until) std::this_thread::yield();
  if (meeting >= 2) met = true;
  work(ctx);
}

std::shared_ptr<const Registry> ops() {
  const auto hold = [](KernelContext& ctx) {
    held->stay();
    work(ctx);
  };
  return ops_with({own_op("Work", {.dtype = DType::f32, .run = work}),
                   own_op("Meet", {.dtype = DType::f32, .run = meet}),
                   own_op("Hold", {.dtype = DType::f32, .run = hold})});
}

const Tensor& fed() {
  static const Tensor one = Tensor::scalar(1.0F);
  return one;
}

// Until its nodes have been measured.
void warm(const Callable& step) {
  for (int i = 0; i < 20; ++i) step({fed()});
}

// Two lanes of a session with three threads, and a caller that gave one of them its kernel, are in
// kernels that do not end, while `step` runs: y = f(x) + f(x), with a costly f.
template <class F>
void beside_three_that_never_rest(const char* f, F&& check) {
  held = std::make_unique<Held>();
  held->open = true;
  Graph graph(ops());
  const Output x = placeholder(graph, DType::f32, {});
  const auto twice = [&](const char* op) {
    return graph.add({.op = op, .inputs = {x}}) + graph.add({.op = op, .inputs = {x}});
  };
  const Output one = graph.add({.op = "Hold", .inputs = {x}}), two = twice("Hold"), y = twice(f);
  Session session = Session::local(graph, {.threads = 3, .passes = false});
  const Callable hold_one = session.prepare({one}, {x}), hold_two = session.prepare({two}, {x});
  const Callable step = session.prepare({y}, {x});
  for (const Callable* call : {&hold_one, &hold_two, &step}) warm(*call);
  held->open = false;
  held->inside = 0;
  std::thread caller([&] { hold_two({fed()}); });
  bool busy = held->await(2);
  std::promise<void> started_ended;
  hold_one.start({fed()}, {}, [&](RunResult) { started_ended.set_value(); });
  busy = busy && held->await(3);
  CHECK(busy);
  if (busy) check(step);
  held->let_go();
  caller.join();
  started_ended.get_future().wait();
}

}  // namespace

TEST_CASE("a step gets a lane for its kernels while other lanes and a caller never rest") {
  beside_three_that_never_rest(
      "Work", [](const Callable& step) { CHECK(step({fed()})[0].item<float>() == 2.0F); });
}

TEST_CASE("a kernel gets a lane while all others, and the caller that gave it away, never rest") {
  beside_three_that_never_rest("Meet", [](const Callable& step) {
    for (int round = 0; round < 3; ++round) {
      meeting = 0;
      met = false;
      CHECK(step({fed()})[0].item<float>() == 2.0F);
      CHECK(met);
      met = true;
    }
  });
}

TEST_CASE("an actor system with another scheduler runs costly steps") {
  caf::actor_system_config config;
  config.set("scheduler.max-threads", size_t{2});
  caf::actor_system system(config);
  Graph graph(ops());
  const Output x = placeholder(graph, DType::f32, {});
  const Output y =
      graph.add({.op = "Work", .inputs = {x}}) + graph.add({.op = "Work", .inputs = {x}});
  Session session = local_session(graph, system, {.threads = 2});
  const Callable step = session.prepare({y}, {x});
  warm(step);
  CHECK(step({fed()})[0].item<float>() == 2.0F);
}

}  // namespace troupe
