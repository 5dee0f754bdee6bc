// What lanes do for one step while others compute all the time: a step whose kernels wait in the
// queue of op jobs gets a lane in the end, however busy callers and lanes are; and an actor system
// that is not ours, with another scheduler, runs costly steps, too.
#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <future>
#include <mutex>
#include <span>
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

const Shape kLarge{1 << 20};  // what writes so much goes to a lane before it is measured

void copy(KernelContext& ctx) {
  std::copy_n(ctx.input(0).data<float>(), kLarge.size(), ctx.output().mutable_data<float>());
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
  return ops_with({op("Copy", copy), op("Hold", [](KernelContext& ctx) {
                     held->stay();
                     copy(ctx);
                   })});
}

Tensor ones() {
  const std::vector<float> values(static_cast<size_t>(kLarge.size()), 1.0F);
  return Tensor::of(std::span<const float>(values), kLarge);
}

}  // namespace

TEST_CASE("a step gets a lane for its kernels while another lane and a caller never rest") {
  held = std::make_unique<Held>();
  Graph graph(ops());
  const Output x = placeholder(graph, DType::f32, kLarge);
  const Output holds = reduce_sum(graph.add({.op = "Hold", .inputs = {x}}));
  const Output a = graph.add({.op = "Copy", .inputs = {x}});
  const Output b = graph.add({.op = "Copy", .inputs = {x}});
  const Output both = reduce_sum(a) + reduce_sum(b);
  Session session = Session::local(graph, {.threads = 2, .passes = false});
  const Callable hold = session.prepare({holds}, {x});
  const Callable step = session.prepare({both}, {x});
  std::promise<void> started_ended;
  hold.start({ones()}, {}, [&](RunResult) { started_ended.set_value(); });
  std::thread caller([&] { hold({ones()}); });
  const bool busy = held->await(2);
  CHECK(busy);
  if (busy) CHECK(step({ones()})[0].item<float>() == 2.0F * static_cast<float>(kLarge.size()));
  held->let_go();
  caller.join();
  started_ended.get_future().wait();
}

TEST_CASE("an actor system with another scheduler runs costly steps") {
  caf::actor_system_config config;
  config.set("scheduler.max-threads", size_t{2});
  caf::actor_system system(config);
  Graph graph(ops());
  const Output x = placeholder(graph, DType::f32, kLarge);
  const Output y = reduce_sum(graph.add({.op = "Copy", .inputs = {x}}));
  const Output z = reduce_sum(graph.add({.op = "Copy", .inputs = {x}}));
  Session session = local_session(graph, system, {.threads = 2});
  const Callable step = session.prepare({y + z}, {x});
  for (int i = 0; i < 3; ++i)
    CHECK(step({ones()})[0].item<float>() == 2.0F * static_cast<float>(kLarge.size()));
}

}  // namespace troupe
