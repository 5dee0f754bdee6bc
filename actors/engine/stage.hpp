// Stage: one partition of a graph on one device, compiled for firing. It owns the op actors of its
// nodes and the activations of its running steps.
//
// Code in the actor, state in the activation (activation.hpp): a node's kernel belongs to its op
// actor; what one step has of it is in an Activation.
//
// Owner: the installation. Lost when it ends: its op actors and steps; whoever waits for a value of
// it hears of that by the step's end or deadline.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include <caf/all.hpp>

#include "actors/engine/activation.hpp"
#include "actors/engine/early_values.hpp"
#include "actors/engine/program.hpp"
#include "actors/engine/replacement.hpp"
#include "actors/observe/trace.hpp"
#include "devices/device.hpp"
#include "devices/threads/thread_index.hpp"
#include "devices/work.hpp"
#include "net/wire/messages.hpp"
#include "placement/node_costs.hpp"
#include "placement/partition.hpp"

namespace troupe {

// What has left over a cut edge so far.
struct EdgeCount {
  int64_t transfers = 0;  // sends, those of control edges and dead values included
  int64_t bytes = 0;      // of tensors
  friend bool operator==(const EdgeCount&, const EdgeCount&) = default;
};

class Cores;
class Lanes;

// What a stage needs of the process it is in. All of it outlives the stage.
struct StageHost {
  caf::actor_system* system = nullptr;
  Device* device = nullptr;
  Tracer* tracer = nullptr;
  int lanes = 1;                     // threads that may run kernels side by side
  Lanes* op_lanes = nullptr;         // for the jobs of one kernel; null: its own thread does them
  Cores* cores = nullptr;            // where lanes and callers compute; null: nobody looks
  std::shared_ptr<NodeCosts> costs;  // what others have measured; null: nothing is known
  // Where a value that leaves over that edge is made; nullptr: where all others are.
  std::function<Memory*(const Edge&)> edge_memory;
  std::function<void(const std::string&)> warn;  // one line for a person
  std::function<void(const caf::strong_actor_ptr&)>
      replaced;  // an op actor was made anew under its old id
};

class Stage : public std::enable_shared_from_this<Stage> {
 public:
  // Compiles `partition`. Throws: Error(invalid_argument) naming node and device when there is no
  // kernel.
  static std::shared_ptr<Stage> make(uint64_t session, uint32_t executable,
                                     std::shared_ptr<const Graph> graph, Partition partition,
                                     StageHost host);
  ~Stage();
  Stage(const Stage&) = delete;

  uint32_t executable() const { return executable_; }
  const std::string& device() const { return program_.partition.device; }
  // The op actor behind a node or a receiving edge; every node of the partition has one.
  caf::actor op_actor(uint32_t firing_index) const;
  std::map<int32_t, caf::actor> receivers() const;  // by edge
  void connect(int32_t edge, caf::actor receiver);  // before the first step

  // The runs of the session before this one are over, here and everywhere: what has come early for
  // them goes, and what still comes is dropped. Any thread.
  void forget_before(int64_t run);
  // Arms a step. The caller owns it: set sources, then call own().
  // `on_end` is called on the thread that ends the step; without it, a caller waits with wait().
  // Whoever holds the step gives it back with release() once it has ended and its fetched values
  // have been taken.
  ActivationPtr begin(const RunContext& info, std::function<void(Activation&)> on_end = nullptr);
  void release(ActivationPtr step);
  // What steps that have ended keep of that device's memory for the next ones, in all stages of
  // this process, goes back to its pool: somebody finds no room there. Any thread.
  static void free_idle(const Device* device);
  // Puts an armed step on the lanes instead of firing it on this thread.
  void schedule(const ActivationPtr& step);
  std::vector<std::string> waiting_for(
      int64_t run);  // nodes; empty for a step that waits for nobody
  // Sleeps until the step has ended, firing what becomes ready. False: the deadline passed.
  bool wait(Activation& step, std::chrono::steady_clock::time_point deadline);
  // A value for one of this stage's edges; from an op actor's door. Any thread; only stores and
  // schedules.
  void deliver(Deliver message);
  // Ends `run` here with that reason, now or as soon as it is armed; does nothing once it has
  // ended. A step that its caller holds and that waits for nobody (no receives, no async kernels)
  // is interrupted by its caller. Any thread.
  void cancel(int64_t run, Errc code, const std::string& text);
  void cancel_all(Errc code, const std::string& text);
  // What takes the place of the kernel of the node of that name; null if it does not fire here. Any
  // thread. Throws: Error(invalid_argument) if `op` does not fit (actors/engine/replacement.hpp).
  std::unique_ptr<Replacement> replacement(const std::string& node,
                                           const std::shared_ptr<const Op>& op) const;
  // Steps that begin from now on fire it, and those that run may. Any thread.
  void become(std::unique_ptr<Replacement> replacement);
  // An op actor was killed: its code is made anew from the node; no step notices.
  void restart_op(uint32_t firing_index, const std::string& reason);

  // The value slot of a fetched or fed output; kNoSlot if it is not here.
  static constexpr uint32_t kNoSlot = kNone;
  uint32_t slot_of(int32_t node, int32_t output) const { return program_.slot_of(node, output); }
  uint32_t source_slot(int32_t node, int32_t output) const {
    return program_.source_slot(node, output);
  }
  size_t node_count() const { return program_.nodes.firing.size(); }
  int64_t running() const { return running_.sum(); }
  bool waits() const { return program_.waits(); }
  const std::string& name_of(uint32_t firing_index) const {
    return program_.nodes.names[firing_index];
  }
  const std::vector<std::shared_ptr<Stage>>& bodies() const { return bodies_; }  // of functions
  std::map<int32_t, EdgeCount> edge_counts() const;  // by edge that leaves this stage
  // What firing takes, in nanoseconds, by node of the graph, as far as it was measured.
  std::map<int32_t, int64_t> costs() const;
  int64_t kernel_restarts() const {
    int64_t sum = kernel_restarts_.load(std::memory_order_relaxed);
    for (const auto& body : bodies_) sum += body->kernel_restarts();
    return sum;
  }
  int64_t op_restarts() const { return op_restarts_.load(std::memory_order_relaxed); }

 private:
  friend class Activation;
  friend class AsyncFiring;
  friend class LaneJob;

  struct SendPort {
    caf::actor receiver;
    std::atomic<int64_t> bytes{0};
    std::atomic<int64_t> transfers{0};
  };

  Stage(uint64_t session, uint32_t executable, Program program, StageHost host);
  static std::shared_ptr<Stage> make(uint64_t session, uint32_t executable, Program program,
                                     const StageHost& host);
  Stage& body_of(const Program::Call& call) const { return *(*callable_)[call.body]; }
  ActivationPtr acquire();
  static constexpr size_t kIdleActivationsMax = 32;  // steps in flight past this allocate
  // The same of calls of a function, one inside the other; and what each of them keeps to itself.
  static constexpr size_t kIdleCallsMax = 1024;
  static constexpr int64_t kIdleCallBytes = 16 << 10;
  // Which runs have ended here is remembered by their number modulo this. What comes late for one
  // that was forgotten waits as if it were early, until forget_before().
  static constexpr int64_t kEndedMemory = 4096;
  static constexpr int64_t kForgottenSaid = 4096;  // one line for so many
  // All three: requires mutex_.
  bool has_ended(int64_t run) const;
  void ended(int64_t run);
  void forgot(int64_t run);
  void adopt_costs();
  void sampled(uint32_t node, int64_t took_ns);  // a kernel was timed
  // A span from `begin_ns` until now, if the tracer is still on.
  void trace(const char* category, uint32_t node, int64_t begin_ns, int64_t run, int64_t bytes = -1,
             int64_t flops = -1);
  // The same of a kernel that has run, with its op and work; `outputs` are its value slots.
  void trace_kernel(const char* category, uint32_t node, int64_t begin_ns, int64_t run,
                    const WorkCount& work, const Tensor* outputs);

  const uint64_t session_;
  const uint32_t executable_;
  const StageHost host_;
  Program program_;
  std::vector<SendPort> ports_;  // by Program::Edges::sends
  std::vector<std::shared_ptr<Stage>> bodies_;
  // The stages of Program::Call::body: the bodies of the stage that all these calls are in.
  const std::vector<std::shared_ptr<Stage>>* callable_ = &bodies_;

  // Measured.
  std::vector<NodeCosts::Cost*> costs_;    // by firing index; null where none is kept
  std::deque<NodeCosts::Cost> own_costs_;  // without a StageHost::costs
  std::atomic<int64_t> kernel_restarts_{0};
  std::atomic<int64_t> op_restarts_{0};
  Tally running_;

  // One that a thread gave back, for it to take again: see thread_index(). Each holds a reference.
  struct alignas(kCacheLine) Spare {
    std::atomic<Activation*> step{nullptr};
    ActivationPtr take() {
      return {step.exchange(nullptr, std::memory_order_acq_rel), /*add_ref=*/false};
    }
  };
  std::array<Spare, kThreadIndices> spares_;

  mutable std::mutex mutex_;  // guards the rest
  std::vector<caf::strong_actor_ptr> actors_;
  std::unordered_map<int64_t, ActivationPtr> runs_;
  EarlyValues early_;
  int64_t forgotten_ = 0;  // early runs, for want of room
  int64_t oldest_ = 0;     // no run before it comes any more
  std::vector<int64_t> ended_ =
      std::vector<int64_t>(kEndedMemory, -1);  // run % kEndedMemory -> run
  std::vector<ActivationPtr> idle_;
  std::vector<std::unique_ptr<Replacement>> replacements_;  // all there ever were
};

}  // namespace troupe
