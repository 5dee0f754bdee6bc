// Ops on i32 for tests of the engine, each one behaviour of a kernel that an executor must cope
// with, and the Knobs that tell kernels what to do.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "troupe/op.hpp"

namespace troupe {

// How long a test waits for what must come. Nobody waits that long for what does come.
inline constexpr std::chrono::seconds kSoon{60};

// Orders to kernels, and their counts. Kernels are plain functions, so there is one of it; each
// ExecutorRig starts with a new one.
struct Knobs {
  std::atomic<int> constants{0};         // times a Const kernel ran
  std::atomic<int> failures{0};          // Flaky kernels throw this often, all together
  std::atomic<int> flaky_runs{0};        // times a Flaky kernel ran, failures included
  std::atomic<int64_t> flaky_inputs{0};  // sum of the first elements it was given
  std::atomic<int> work{0};              // rounds that a Slow kernel computes for its own sake
  std::mutex mutex;                      // guards the rest
  std::condition_variable changed;
  std::deque<std::shared_ptr<AsyncContext>> later;  // firings of Later, in order
  std::map<std::string, int> failures_of;           // Flaky nodes that throw this often each
  std::set<std::thread::id> threads;                // that ran a Slow kernel

  // The next firing of a Later node, once there is one.
  std::shared_ptr<AsyncContext> next_later() {
    std::unique_lock lock(mutex);
    REQUIRE(changed.wait_for(lock, kSoon, [this] { return !later.empty(); }));
    auto firing = std::move(later.front());
    later.pop_front();
    return firing;
  }
  std::set<std::thread::id> take_threads() {
    std::lock_guard lock(mutex);
    return std::exchange(threads, {});
  }
};
inline std::unique_ptr<Knobs> knobs_now;
inline Knobs& knobs() { return *knobs_now; }

namespace engine_ops_detail {

using U = uint32_t;  // sums wrap

inline const int32_t* in(KernelContext& ctx, int i) { return ctx.input(i).data<int32_t>(); }

// y[k] = f(k) for all elements of output i, over input 0 where that is allowed.
template <class F>
void fill(Tensor& y, F&& f) {
  int32_t* out = y.mutable_data<int32_t>();
  for (int64_t k = 0; k < y.size(); ++k) out[k] = static_cast<int32_t>(f(k));
}

inline void constant(KernelContext& ctx) {
  ++knobs().constants;
  ctx.set_output(0, ctx.attr<Tensor>("value"));
}
inline void add_one(KernelContext& ctx) {
  const int32_t* x = in(ctx, 0);
  fill(ctx.output_in_place(), [&](int64_t k) { return U(x[k]) + 1; });
}
inline void add(KernelContext& ctx) {
  const int32_t *a = in(ctx, 0), *b = in(ctx, 1);
  fill(ctx.output_in_place(), [&](int64_t k) { return U(a[k]) + U(b[k]); });
}
inline void reverse(KernelContext& ctx) {
  const int32_t* x = in(ctx, 0);
  const int64_t n = ctx.input(0).size();
  fill(ctx.output_in_place(), [&](int64_t k) { return U(x[n - 1 - k]); });
}
inline void mul(KernelContext& ctx) {
  const int32_t *a = in(ctx, 0), *b = in(ctx, 1);
  fill(ctx.output(), [&](int64_t k) { return U(a[k]) * U(b[k]); });
}
inline void pair(KernelContext& ctx) {
  const int32_t* x = in(ctx, 0);
  fill(ctx.output(0), [&](int64_t k) { return U(0) - U(x[k]); });
  fill(ctx.output(1), [&](int64_t k) { return 2 * U(x[k]); });
}
inline void many(KernelContext& ctx) {
  const int32_t* x = in(ctx, 0);
  for (int i = 0; i < static_cast<int>(ctx.node().outputs.size()); ++i)
    fill(ctx.output(i), [&](int64_t k) { return U(x[k]) + U(i); });
}
inline void join(KernelContext& ctx) {
  fill(ctx.output(), [&](int64_t k) {
    U sum = 0;
    for (int i = 0; i < ctx.input_count(); ++i) sum = 3 * sum + U(in(ctx, i)[k]);
    return sum;
  });
}
inline void flaky(KernelContext& ctx) {
  ++knobs().flaky_runs;
  knobs().flaky_inputs += *in(ctx, 0);
  bool fails = knobs().failures.load() > 0 && knobs().failures.fetch_sub(1) > 0;
  {
    std::lock_guard lock(knobs().mutex);
    auto it = knobs().failures_of.find(ctx.node().name);
    if (it != knobs().failures_of.end() && it->second-- > 0) fails = true;
  }
  if (fails) {
    const std::string& kind = ctx.attr<std::string>("kind");
    ctx.output();  // a half-made output must not survive
    if (kind == "int") throw 42;
    if (kind == "memory") throw std::bad_alloc();
    if (kind == "refusal") throw ctx.error("out of luck");
    throw Error(Errc::io, "out of luck");
  }
  const int32_t* x = in(ctx, 0);
  fill(ctx.output(), [&](int64_t k) { return 5 * U(x[k]); });
}
inline U burn(U x) {
  for (int i = knobs().work.load(); i > 0; --i) x = x * 1664525u + 1013904223u;
  return x;
}
inline void slow(KernelContext& ctx) {
  {
    std::lock_guard lock(knobs().mutex);
    knobs().threads.insert(std::this_thread::get_id());
  }
  const int32_t* x = in(ctx, 0);
  fill(ctx.output(), [&](int64_t k) { return burn(U(x[k])); });
}
inline void later(std::shared_ptr<AsyncContext> firing) {
  {
    std::lock_guard lock(knobs().mutex);
    knobs().later.push_back(std::move(firing));
  }
  knobs().changed.notify_all();
}
inline void at_once(std::shared_ptr<AsyncContext> firing) { firing->done({firing->input(0)}); }
inline void refuse_to_start(std::shared_ptr<AsyncContext> firing) {
  throw Error(Errc::stale, "cannot start ", firing->node().name);
}

}  // namespace engine_ops_detail

inline std::shared_ptr<const Registry> engine_ops() {
  namespace d = engine_ops_detail;
  static const std::shared_ptr<const Registry> all = [] {
    const auto i32 = [](const InferContext&) { return std::vector<DType>{DType::i32}; };
    const auto same = [](const InferContext& ctx) { return std::vector<Shape>{ctx.input(0)}; };
    const auto cpu = [](void (*run)(KernelContext&)) {
      return std::vector<Kernel>{{DeviceKind::cpu, DType::i32, run}};
    };
    const auto async = [](void (*start)(std::shared_ptr<AsyncContext>)) {
      return std::vector<Kernel>{{.device = DeviceKind::cpu, .start = start}};
    };
    // y of the shape of x.
    const auto unary = [&](std::string name, std::vector<Kernel> kernels) {
      return Op{.name = std::move(name),
                .inputs = {"x"},
                .outputs = {"y"},
                .infer_shapes = same,
                .kernels = std::move(kernels)};
    };
    auto r = std::make_shared<Registry>();
    // In: fed, never run.
    r->add({.name = "In",
            .outputs = {"y"},
            .attrs = {{"shape", AttrKind::shape, Attr(Shape{2})}},
            .infer_dtypes = i32,
            .infer_shapes = [](const InferContext& ctx) {
              return std::vector<Shape>{ctx.attr<Shape>("shape")};
            }});
    r->add({.name = "Const",
            .outputs = {"y"},
            .attrs = {{"value", AttrKind::tensor}},
            .infer_dtypes = i32,
            .infer_shapes =
                [](const InferContext& ctx) {
                  return std::vector<Shape>{ctx.attr<Tensor>("value").shape()};
                },
            .kernels = cpu(d::constant),
            .dispatch = -1});
    r->add({.name = "AddOne",
            .inputs = {"x"},
            .outputs = {"y"},
            .infer_shapes = same,
            .kernels = cpu(d::add_one),
            .in_place = true});
    r->add({.name = "Add",
            .inputs = {"a", "b"},
            .outputs = {"c"},
            .infer_shapes = same,
            .kernels = cpu(d::add),
            .in_place = true});
    // y = x backwards. Asks for the memory of x, which it would spoil, and does not declare that it
    // may have it.
    r->add(unary("Reverse", cpu(d::reverse)));
    r->add({.name = "Mul",
            .inputs = {"a", "b"},
            .outputs = {"c"},
            .infer_shapes = same,
            .kernels = cpu(d::mul)});
    // y = -x, z = 2 x
    r->add({.name = "Pair",
            .inputs = {"x"},
            .outputs = {"y", "z"},
            .infer_shapes =
                [](const InferContext& ctx) { return std::vector<Shape>(2, ctx.input(0)); },
            .kernels = cpu(d::pair)});
    // y[i] = x + i for `count` outputs
    r->add({.name = "Many",
            .inputs = {"x"},
            .outputs = {"y..."},
            .attrs = {{"count", AttrKind::integer}},
            .infer_shapes =
                [](const InferContext& ctx) {
                  return std::vector<Shape>(static_cast<size_t>(ctx.attr<int64_t>("count")),
                                            ctx.input(0));
                },
            .kernels = cpu(d::many)});
    r->add({.name = "Join",
            .inputs = {"x..."},
            .outputs = {"y"},
            .infer_shapes = same,
            .kernels = cpu(d::join)});
    // y = 5 x, or an exception: see Knobs. kind: error, int, memory,
    // refusal.
    r->add({.name = "Flaky",
            .inputs = {"x"},
            .outputs = {"y"},
            .attrs = {{"kind", AttrKind::text, Attr(std::string("error"))}},
            .infer_shapes = same,
            .kernels = cpu(d::flaky)});
    r->add(unary("Slow", cpu(d::slow)));
    // Answered by the test: Knobs::next_later().
    r->add(unary("Later", async(d::later)));
    r->add(unary("AtOnce", async(d::at_once)));
    r->add(unary("NoStart", async(d::refuse_to_start)));
    for (const char* op : {"Branch", "Capture", "Greater", "Less", "Loop", "LoopVariable", "Merge",
                           "Restore", "Save", "While"})
      r->add(builtin_ops()->get(op));
    return r;
  }();
  return all;
}

}  // namespace troupe
