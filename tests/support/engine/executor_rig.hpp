// ExecutorRig: a graph cut into executors on devices of one process, joined by hand and fired,
// without a session or a network. And EngineOps: ops on i32 for it, each one behaviour of a kernel
// that a executor must cope with.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <caf/all.hpp>
#include <doctest/doctest.h>

#include "actors/cluster/lane_scheduler.hpp"
#include "actors/engine/executor.hpp"
#include "graph/prune.hpp"
#include "placement/passes/passes.hpp"
#include "placement/partition.hpp"
#include "tests/support/evaluate.hpp"
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
    r->add({.name = "Reverse",
            .inputs = {"x"},
            .outputs = {"y"},
            .infer_shapes = same,
            .kernels = cpu(d::reverse)});
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
    r->add({.name = "Slow",
            .inputs = {"x"},
            .outputs = {"y"},
            .infer_shapes = same,
            .kernels = cpu(d::slow)});
    // Answered by the test: Knobs::next_later().
    r->add({.name = "Later",
            .inputs = {"x"},
            .outputs = {"y"},
            .infer_shapes = same,
            .kernels = async(d::later)});
    r->add({.name = "AtOnce",
            .inputs = {"x"},
            .outputs = {"y"},
            .infer_shapes = same,
            .kernels = async(d::at_once)});
    r->add({.name = "NoStart",
            .inputs = {"x"},
            .outputs = {"y"},
            .infer_shapes = same,
            .kernels = async(d::refuse_to_start)});
    for (const char* op : {"Branch", "Capture", "Greater", "Less", "Loop", "LoopVariable", "Merge",
                           "Restore", "Save", "While"})
      r->add(builtin_ops()->get(op));
    return r;
  }();
  return all;
}

inline Tensor ints(std::initializer_list<int32_t> values) {
  return Tensor::of<int32_t>(values, Shape{static_cast<int64_t>(values.size())});
}

class ExecutorRig {
 public:
  static constexpr const char* kClient = "/job:a/task:0/device:cpu:0";
  static constexpr const char* kOther = "/job:a/task:0/device:cpu:1";
  static constexpr const char* kShadow = "/job:a/task:0/device:shadow:0";
  static constexpr uint64_t kSession = 7;
  static constexpr uint32_t kExecutable = 3;

  explicit ExecutorRig(int lanes = 1) : lanes_(lanes) {
    knobs_now = std::make_unique<Knobs>();
    config_.load<LaneScheduler>();
    config_.set("scheduler.max-threads", static_cast<size_t>(lanes));
    system_ = std::make_unique<caf::actor_system>(config_);
    for (const char* name : {kClient, kOther}) devices_[name] = make_cpu_device(name, 1 << 26);
    devices_[kShadow] = make_shadow_device(kShadow, 1 << 26);
  }
  ~ExecutorRig() {
    {
      std::lock_guard lock(knobs().mutex);
      knobs().later.clear();  // they may hold steps
    }
    executors.clear();
    system_.reset();  // joins the lanes
  }

  Output input(std::string_view name = "x", Shape shape = {2}) {
    return graph.add({"In", {}, {{"shape", shape}}, name});
  }
  Output constant(std::initializer_list<int32_t> values) {
    return graph.add({"Const", {}, {{"value", ints(values)}}});
  }
  Output op(std::string_view name, std::vector<Output> inputs, std::string_view node = {},
            Attrs attrs = {}) {
    return graph.add({name, std::move(inputs), std::move(attrs), node});
  }
  [[nodiscard]] Graph::Scope on(const char* device) {
    return graph.scope({.device = std::string(device)});
  }

  // Cuts and compiles what `fetches` need; a node without a device wish goes to kClient. Joins the
  // executors.
  void build(std::vector<Output> fetches_in, std::vector<Output> feeds_in) {
    fetches = std::move(fetches_in);
    feeds = std::move(feeds_in);
    std::map<int32_t, std::string> device_of;
    for (int32_t id : prune(graph, fetches, feeds))
      device_of[id] = graph.node(id).device.empty() ? kClient : graph.node(id).device;
    for (Partition& part : partition(graph, fetches, feeds, device_of, kClient)) {
      ExecutorHost host;
      host.system = system_.get();
      host.device = devices_.at(part.device).get();
      host.tracer = &tracer;
      host.lanes = lanes_;
      host.edge_memory = [this](const Edge& edge) {
        return devices_.at(edge.destination)->staging();
      };
      host.warn = [this](const std::string& line) {
        std::lock_guard lock(warnings_mutex_);
        warnings_.push_back(line);
      };
      host.replaced = [this](const caf::strong_actor_ptr& actor) {
        std::lock_guard lock(warnings_mutex_);
        replaced_.push_back(actor->id());
      };
      const std::shared_ptr<const Graph> shared(alive_, &graph);
      executors.push_back(
          PartitionExecutor::make(kSession, kExecutable, shared, std::move(part), std::move(host)));
    }
    for (const auto& executor : executors)
      for (const auto& [edge, receiver] : executor->receivers())
        for (const auto& other : executors)
          other->connect(edge, repeats ? repeating(receiver) : receiver);
  }

  PartitionExecutor& client() { return *executors.at(0); }
  PartitionExecutor& executor(size_t i) { return *executors.at(i); }
  Device& device(const char* name) { return *devices_.at(name); }
  int64_t used_bytes() {
    int64_t out = 0;
    for (const auto& [name, device] : devices_) out += device->memory().stats().used_bytes;
    return out;
  }
  caf::actor_system& system() { return *system_; }

  static Deliver deliver(int64_t run, int32_t edge, Tensor value) {
    Deliver message;
    message.key = {kSession, kExecutable, run, 0, 0, edge};
    message.value = std::move(value);
    return message;
  }

  // One step in all executors. The client's is fired and waited for by the thread that calls.
  class Run {
   public:
    Run(ExecutorRig& rig, int64_t run, const std::vector<Tensor>& values) : rig_(rig), run_(run) {
      open_ = rig.executors.size() - 1;
      const RunContext info{.run = run};
      for (size_t i = 0; i < rig.executors.size(); ++i)
        steps_.push_back(rig.executors[i]->begin(info, i == 0 ? nullptr : on_end()));
      for (size_t i = 0; i < values.size(); ++i)
        if (const uint32_t slot =
                rig.client().program().source_slot(rig.feeds[i].node, rig.feeds[i].index);
            slot != kNone)
          steps_[0]->set_source(slot, values[i]);
    }
    Run(const Run&) = delete;

    Step& client() { return *steps_[0]; }
    // Puts the executors of other devices on the lanes and fires the client's as far as it goes.
    void fire(bool may_use_lanes = true) {
      for (size_t i = 1; i < steps_.size(); ++i) steps_[i]->schedule();
      steps_[0]->own(may_use_lanes);
    }
    // Waits until all executors are done with the step, and says how; the values of the fetches are
    // in `values`.
    StepResult finish() {
      REQUIRE(steps_[0]->wait(std::chrono::steady_clock::now() + kSoon));
      StepResult result = steps_[0]->result();
      if (result.code != Errc::ok) cancel_others(result.text);
      {
        std::unique_lock lock(mutex_);
        REQUIRE(changed_.wait_for(lock, kSoon, [this] { return open_ == 0; }));
        if (failed_.code != Errc::ok && failed_.code != Errc::cancelled) result = failed_;
      }
      if (result.code == Errc::ok)
        for (const Output& o : rig_.fetches) {
          const uint32_t slot = rig_.client().program().slot_of(o.node, o.index);
          values.push_back(slot == kNone ? Tensor{} : steps_[0]->value(slot));
        }
      for (size_t i = 0; i < steps_.size(); ++i) rig_.executors[i]->release(std::move(steps_[i]));
      return result;
    }
    std::vector<Tensor> values;

   private:
    std::function<void(Step&)> on_end() {
      return [this](Step& step) {
        const StepResult result = step.result();
        if (result.code != Errc::ok) {
          cancel_others(result.text);
          rig_.client().cancel(run_, Errc::cancelled, "another stage failed: " + result.text);
        }
        std::lock_guard lock(mutex_);
        if (failed_.code == Errc::ok || failed_.code == Errc::cancelled) failed_ = result;
        --open_;
        changed_.notify_all();
      };
    }
    void cancel_others(const std::string& text) {
      for (size_t i = 1; i < rig_.executors.size(); ++i)
        rig_.executors[i]->cancel(run_, Errc::cancelled, "another stage failed: " + text);
    }

    ExecutorRig& rig_;
    const int64_t run_;
    std::vector<StepPtr> steps_;
    std::mutex mutex_;  // guards the rest
    std::condition_variable changed_;
    size_t open_ = 0;
    StepResult failed_;
  };

  // A whole step. The result of the last one is in `last`.
  std::vector<Tensor> run(const std::vector<Tensor>& values = {}) {
    Run step(*this, next_run++, values);
    step.fire();
    last = step.finish();
    return std::move(step.values);
  }
  // The same fetches, by plain evaluation.
  std::vector<Tensor> expected(const std::vector<Tensor>& values = {}) {
    FedValues fed;
    for (size_t i = 0; i < feeds.size(); ++i) fed[feeds[i]] = values[i];
    return evaluate(graph, fetches, fed);
  }
  void check_against_plain_evaluation(const std::vector<Tensor>& values = {}) {
    const std::vector<Tensor> want = expected(values), got = run(values);
    CHECK(last.text == "");
    REQUIRE(last.code == Errc::ok);
    REQUIRE(got.size() == want.size());
    for (size_t i = 0; i < got.size(); ++i)
      CHECK_MESSAGE(same_bits(got[i], want[i]), "fetch ", i, ": ", got[i], " is not ", want[i]);
  }
  std::vector<std::string> warnings() {
    std::lock_guard lock(warnings_mutex_);
    return warnings_;
  }
  std::vector<caf::actor_id> replaced() {
    std::lock_guard lock(warnings_mutex_);
    return replaced_;
  }

  Graph graph{engine_ops()};
  std::vector<Output> fetches, feeds;
  StepResult last;
  int64_t next_run = 1;
  Tracer tracer{"rig", 1};
  bool repeats = false;  // what goes from executor to executor comes twice; set before build()

 private:
  // Hands on what it gets, twice.
  caf::actor repeating(const caf::actor& receiver) {
    return system_->spawn([receiver](caf::event_based_actor*) -> caf::behavior {
      return {[receiver](const Deliver& message) {
        for (int i = 0; i < 2; ++i) caf::anon_send(receiver, message);
      }};
    });
  }

  const int lanes_;
  const std::shared_ptr<void> alive_ = std::make_shared<int>(0);  // what shares the graph
  std::mutex warnings_mutex_;                                     // guards the next two
  std::vector<std::string> warnings_;
  std::vector<caf::actor_id> replaced_;
  caf::actor_system_config config_;
  std::unique_ptr<caf::actor_system> system_;
  std::map<std::string, std::unique_ptr<Device>> devices_;

 public:
  std::vector<std::shared_ptr<PartitionExecutor>> executors;  // the client's first
};

}  // namespace troupe
