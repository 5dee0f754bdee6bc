// A session of N threads has N lanes, and the caller of a step takes part in it: so many threads
// compute at once and no more, whatever is ready and however it is cut, and more than one if there
// is work for them.
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include "troupe/op.hpp"
#include "troupe/ops.hpp"
#include "troupe/own_op.hpp"
#include "troupe/session.hpp"

namespace troupe {
namespace {

constexpr int kWide = 12;  // nodes side by side
constexpr int kJobs = 6;   // that each of them is cut into
constexpr int kSteps = 40;

// How many threads are in kernels and jobs now, and how many were at most.
struct Inside {
  static inline std::atomic<int> now{0}, most{0};
  static inline thread_local int depth = 0;
  Inside() {
    if (depth++ > 0) return;
    const int here = ++now;
    for (int seen = most; seen < here && !most.compare_exchange_weak(seen, here);) {
    }
  }
  ~Inside() {
    if (--depth == 0) --now;
  }
  Inside(const Inside&) = delete;
};

// Computes for a while.
void work() {
  const Inside inside;
  const auto until = std::chrono::steady_clock::now() + std::chrono::microseconds(60);
  while (std::chrono::steady_clock::now() < until) {
  }
}

std::shared_ptr<const Registry> ops() {
  return ops_with({{.name = "Work",
                    .inputs = {"x"},
                    .outputs = {"y"},
                    .infer_shapes = [](const InferContext& c) { return std::vector{c.input(0)}; },
                    .no_gradient = "nothing is computed",
                    .kernels = {{DeviceKind::cpu, DType::none, [](KernelContext& ctx) {
                                   const Inside inside;
                                   work();
                                   ctx.parallel(kJobs, [](int64_t) { work(); });
                                   ctx.set_output(0, ctx.input(0));
                                 }}}}});
}

}  // namespace

TEST_CASE("no more threads compute at once than the lanes and the caller of the step") {
  for (const int threads : {1, 2, 3}) {
    CAPTURE(threads);
    Graph graph(ops());
    const Output x = placeholder(graph, DType::f32, {4});
    Output sum = x;
    for (int i = 0; i < kWide; ++i) sum = sum + graph.add({.op = "Work", .inputs = {x}});
    Session session = Session::local(graph, {.threads = threads, .passes = false});
    const Callable step = session.prepare({sum}, {x});
    const Tensor fed = Tensor::of<float>({1, 2, 3, 4}, {4});
    Inside::most = 0;
    for (int i = 0; i < kSteps; ++i)
      CHECK(step({fed})[0].data<float>()[3] == static_cast<float>(4 * (kWide + 1)));
    CHECK(Inside::now.load() == 0);
    CHECK(Inside::most.load() <= threads + 1);
    CHECK(Inside::most.load() >= std::min(threads, 2));  // a third may find no core
  }
}

}  // namespace troupe
