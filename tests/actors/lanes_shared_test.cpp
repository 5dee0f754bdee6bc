// What lanes do for one step while others compute all the time: a step whose kernels wait in the
// queue of op jobs gets a lane in the end, however busy callers and lanes are; and an actor system
// that is not ours, with another scheduler, runs costly steps, too.
#include <doctest/doctest.h>

#include <chrono>
#include <condition_variable>
#include <future>
#include <mutex>
#include <thread>
#include <vector>

#include <caf/all.hpp>

#include "troupe/caf.hpp"
#include "troupe/op.hpp"
#include "troupe/ops.hpp"
#include "troupe/own_op.hpp"
#include "troupe/session.hpp"

namespace troupe {
namespace {

constexpr std::chrono::seconds kNever{120};  // that long only where the test fails

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

std::shared_ptr<const Registry> ops() {
  const auto op = [](const char* name, void (*kernel)(KernelContext&)) {
    return Op{.name = name,
              .inputs = {"x"},
              .outputs = {"y"},
              .infer_shapes = [](const InferContext& c) { return std::vector{c.input(0)}; },
              .no_gradient = "nothing is computed",
              .kernels = {{DeviceKind::cpu, DType::f32, kernel}}};
  };
  return ops_with({op("Work", work), op("Hold", [](KernelContext& ctx) {
                     held->stay();
                     work(ctx);
                   })});
}

const Tensor& fed() {
  static const Tensor one = Tensor::scalar(1.0F);
  return one;
}

// Until its nodes have been measured.
void warm(const Callable& step) {
  for (int i = 0; i < 20; ++i) step({fed()});
}

}  // namespace

TEST_CASE("a step gets a lane for its kernels while another lane and a caller never rest") {
  held = std::make_unique<Held>();
  held->open = true;
  Graph graph(ops());
  const Output x = placeholder(graph, DType::f32, {});
  const Output holds = graph.add({.op = "Hold", .inputs = {x}});
  const Output both =
      graph.add({.op = "Work", .inputs = {x}}) + graph.add({.op = "Work", .inputs = {x}});
  Session session = Session::local(graph, {.threads = 2, .passes = false});
  const Callable hold = session.prepare({holds}, {x});
  const Callable step = session.prepare({both}, {x});
  warm(hold);
  warm(step);
  held->open = false;
  held->inside = 0;
  std::promise<void> started_ended;
  hold.start({fed()}, {}, [&](RunResult) { started_ended.set_value(); });
  std::thread caller([&] { hold({fed()}); });
  const bool busy = held->await(2);
  CHECK(busy);
  if (busy) CHECK(step({fed()})[0].item<float>() == 2.0F);
  held->let_go();
  caller.join();
  started_ended.get_future().wait();
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
