// ExecutorRig: a graph cut into executors on devices of one process, joined by hand and fired,
// without a session or a network. Its ops are in engine_ops.hpp.
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
#include "devices/run_context.hpp"
#include "graph/prune.hpp"
#include "placement/passes/passes.hpp"
#include "placement/partition.hpp"
#include "tests/support/engine/engine_ops.hpp"
#include "tests/support/evaluate.hpp"
#include "tests/support/within.hpp"
#include "troupe/op.hpp"

namespace troupe {

inline Tensor ints(std::initializer_list<int32_t> values) {
  return Tensor::of<int32_t>(values, Shape{static_cast<int64_t>(values.size())});
}

// Lines for a person, and op actors that were made anew, as executors report them from any thread.
class Notices {
 public:
  void warn(const std::string& line) {
    std::lock_guard lock(mutex_);
    warnings_.push_back(line);
  }
  void replaced(caf::actor_id actor) {
    std::lock_guard lock(mutex_);
    replaced_.push_back(actor);
  }
  std::vector<std::string> warnings() const {
    std::lock_guard lock(mutex_);
    return warnings_;
  }
  std::vector<caf::actor_id> replaced() const {
    std::lock_guard lock(mutex_);
    return replaced_;
  }

 private:
  mutable std::mutex mutex_;  // guards the next two
  std::vector<std::string> warnings_;
  std::vector<caf::actor_id> replaced_;
};

// The actor system and the devices of one process.
class Machine {
 public:
  Machine(int lanes, std::initializer_list<const char*> cpus, const char* shadow) : lanes_(lanes) {
    config_.load<LaneScheduler>();
    config_.set("scheduler.max-threads", static_cast<size_t>(lanes));
    system_ = std::make_unique<caf::actor_system>(config_);
    for (const char* name : cpus) devices_[name] = make_cpu_device(name, 1 << 26);
    devices_[shadow] = make_shadow_device(shadow, 1 << 26);
  }
  ~Machine() { system_.reset(); }  // joins the lanes
  int lanes() const { return lanes_; }
  caf::actor_system& system() { return *system_; }
  Device& device(const std::string& name) { return *devices_.at(name); }
  int64_t used_bytes() {
    int64_t out = 0;
    for (const auto& [name, device] : devices_) out += device->memory().stats().used_bytes;
    return out;
  }

 private:
  const int lanes_;
  caf::actor_system_config config_;
  std::unique_ptr<caf::actor_system> system_;
  std::map<std::string, std::unique_ptr<Device>> devices_;
};

class ExecutorRig {
 public:
  static constexpr const char* kClient = "/job:a/task:0/device:cpu:0";
  static constexpr const char* kOther = "/job:a/task:0/device:cpu:1";
  static constexpr const char* kShadow = "/job:a/task:0/device:shadow:0";
  static constexpr uint64_t kSession = 7;
  static constexpr uint32_t kExecutable = 3;

  explicit ExecutorRig(int lanes = 1) : machine_(lanes, {kClient, kOther}, kShadow) {
    knobs_now = std::make_unique<Knobs>();
  }
  ~ExecutorRig() {
    {
      std::lock_guard lock(knobs().mutex);
      knobs().later.clear();  // they may hold steps
    }
    executors.clear();
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
      ExecutorHost host{.system = &system(),
                        .device = &device(part.device),
                        .tracer = &tracer,
                        .lanes = machine_.lanes()};
      host.edge_memory = [this](const Edge& edge) { return device(edge.destination).staging(); };
      host.warn = [this](const std::string& line) { notices_.warn(line); };
      host.replaced = [this](const caf::strong_actor_ptr& actor) {
        notices_.replaced(actor->id());
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
  Device& device(const std::string& name) { return machine_.device(name); }
  int64_t used_bytes() { return machine_.used_bytes(); }
  caf::actor_system& system() { return machine_.system(); }

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
  std::vector<std::string> warnings() const { return notices_.warnings(); }
  std::vector<caf::actor_id> replaced() const { return notices_.replaced(); }

  Graph graph{engine_ops()};
  std::vector<Output> fetches, feeds;
  StepResult last;
  int64_t next_run = 1;
  Tracer tracer{"rig", 1};
  bool repeats = false;  // each value between executors comes twice; set before build()

 private:
  // Hands on what it gets, twice.
  OpHandle repeating(const OpHandle& receiver) {
    return caf::actor_cast<OpHandle>(
        system().spawn([receiver](caf::event_based_actor*) -> caf::behavior {
          return {[receiver](const Deliver& message) {
            for (int i = 0; i < 2; ++i) caf::anon_send(receiver, message);
          }};
        }));
  }

  const std::shared_ptr<void> alive_ = std::make_shared<int>(0);  // shares the graph
  Notices notices_;
  Machine machine_;

 public:
  std::vector<std::shared_ptr<PartitionExecutor>> executors;  // the client's first
};

}  // namespace troupe
