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
struct PartNumbers;  // stage_compile.cpp

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

  const Partition& partition() const { return partition_; }
  uint32_t executable() const { return executable_; }
  const std::string& device() const { return partition_.device; }
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
  static constexpr uint32_t kNoSlot = ~0u;
  uint32_t slot_of(int32_t node, int32_t output) const;
  uint32_t source_slot(int32_t node, int32_t output) const;
  size_t node_count() const { return nodes_.size(); }
  int64_t running() const { return running_.sum(); }
  // A step may wait for something from outside, or has no end in sight.
  bool waits() const { return receives_ > 0 || has_async_ || !loops_.empty() || !calls_.empty(); }
  const std::string& name_of(uint32_t firing_index) const { return names_[firing_index]; }
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

  static constexpr uint32_t kNoLoop = ~0u;
  // In uses_: never counted down to zero within a step; armed anew for each.
  static constexpr int32_t kUncounted = 1 << 30;
  struct SendPort {
    int32_t edge = -1;
    uint32_t slot = 0;
    bool control = false;
    uint32_t loop = kNoLoop;
    caf::actor receiver;
    std::atomic<int64_t> bytes{0};
    std::atomic<int64_t> transfers{0};
  };

  // A loop of the partition, compiled. Slots are value slots, nodes firing indices.
  struct Loop {
    uint32_t begin = 0, end = 0;            // its nodes
    uint32_t slot_begin = 0, slot_end = 0;  // their values
    uint32_t driver = 0, turn = 0, again = 0;
    bool home = false;
    int64_t in_flight = 1;
    std::vector<std::pair<uint32_t, uint32_t>> captured, initial;  // slot outside -> inside
    std::vector<uint32_t> next;                                    // slot of each variable's
    std::vector<TensorType> types;                                 // of the variables
    bool direct = false;           // no variable becomes what another one is
    std::vector<uint32_t> unsure;  // variables whose next shape only the step shows
    std::vector<std::string> variable_names;
    std::vector<uint32_t> first_ready;
    std::vector<size_t> receives;  // edge indices
    std::vector<uint32_t> acks;    // nodes
    int32_t opener = -1;           // in the graph
  };
  // A Call node, compiled: the function's body, and where in that the arguments go that it reads.
  struct CallTarget {
    Stage* body = nullptr;
    std::vector<std::pair<uint32_t, uint32_t>> arguments;  // input -> value slot
    int64_t depth_max = 0;
  };

  Stage(uint64_t session, uint32_t executable, std::shared_ptr<const Graph> graph,
        Partition partition, StageHost host);
  // stage_compile.cpp
  void number_parts(PartNumbers& numbers);
  const Kernel& kernel_of(const Node& node) const;
  bool preset(size_t part, PartNumbers& numbers) const;
  void make_arrays(PartNumbers& numbers);
  void keep_fetched(const PartNode& part, const PartNumbers& numbers);
  void compile_node(size_t part, PartNumbers& numbers);
  void compile_kind(uint32_t i, const PartNode& part, PartNumbers& numbers);
  void compile_op(uint32_t i, const PartNode& part, PartNumbers& numbers);
  void compile_send(uint32_t i, const PartNode& part, const PartNumbers& numbers);
  void join_nodes(const PartNumbers& numbers);
  uint32_t put_list(const std::vector<uint32_t>& list, uint32_t (&own)[4]);
  void make_for(int32_t edge, uint32_t from);
  NodeKind kind_of(const Node& node, const Kernel& kernel) const;
  std::string no_value(uint32_t kept_slot) const;  // why a fetch has none
  void find_first_ready(const std::vector<uint32_t>& fires);
  void find_earliest(const std::vector<uint32_t>& fires);
  // stage_calls.cpp. The bodies of functions, all of one device, by the nodes that open them.
  void make_bodies();
  void link_calls(const std::map<int32_t, Stage*>& bodies);
  CallTarget target_of(const Node& call, Stage& body) const;
  // stage_loops.cpp
  void compile_loops(const std::vector<uint32_t>& fires, const std::vector<uint32_t>& first_slot);
  void compile_variables(Loop& loop, const PartLoop& part,
                         const std::vector<uint32_t>& first_slot) const;
  void find_receives_in_loops();
  const uint32_t* inputs_of(const FiringNode& node) const {
    return node.n_in <= 4 ? node.in : more_.data() + node.in[0];
  }
  const uint32_t* readers_of(const FiringNode& node) const {
    return node.n_to <= 4 ? node.to : more_.data() + node.to[0];
  }
  uint32_t earliest_of(uint32_t node) const {
    return node < earliest_.size() ? earliest_[node] : 0;
  }
  uint32_t role_of(uint32_t node) const { return role_of_[node]; }
  ActivationPtr acquire();
  static constexpr size_t kIdleActivationsMax = 32;  // steps in flight past this allocate
  // The same of calls of a function, one inside the other; and what each of them keeps to itself.
  static constexpr size_t kIdleCallsMax = 1024;
  static constexpr int64_t kIdleCallBytes = 16 << 10;
  bool is_body() const { return partition_.function >= 0; }
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
  std::string place_of(uint32_t node) const;     // "node fc1/MatMul on /job:..."
  // A span from `begin_ns` until now, if the tracer is still on.
  void trace(const char* category, uint32_t node, int64_t begin_ns, int64_t run, int64_t bytes = -1,
             int64_t flops = -1);
  // The same of a kernel that has run, with its op and work; `outputs` are its value slots.
  void trace_kernel(const char* category, uint32_t node, int64_t begin_ns, int64_t run,
                    const WorkCount& work, const Tensor* outputs);

  const uint64_t session_;
  const uint32_t executable_;
  const std::shared_ptr<const Graph> graph_;
  const Partition partition_;
  const StageHost host_;

  // Compiled; not changed after connect(). By firing index.
  std::vector<FiringNode> nodes_;
  std::vector<uint32_t> role_of_;  // loops_, calls_, or number of the save
  std::vector<Loop> loops_;
  std::vector<uint32_t> more_;  // long input and reader lists, of all nodes
  std::vector<NodeView> views_;
  std::vector<Tensor> constants_;  // by slot; undefined where a node writes
  std::vector<int32_t> missing_;
  std::vector<int32_t> uses_;
  std::vector<uint32_t> first_ready_;
  // By firing index: the node goes to a lane when all costly ones before that one have settled that
  // were ready. Empty if all may at any time.
  std::vector<uint32_t> earliest_;
  std::vector<std::pair<int32_t, uint32_t>> receive_nodes_;  // edge -> firing index, sorted
  std::vector<const Edge*> receive_edges_;                   // of the same places
  std::vector<uint32_t> receive_loops_;                      // of the same places, or kNoLoop
  std::vector<std::unique_ptr<SendPort>> sends_;
  std::vector<int32_t> send_of_;  // firing index -> sends_, or -1
  size_t saves_ = 0;
  std::vector<CallTarget> calls_;       // by role_of_
  std::vector<uint32_t> result_slots_;  // of a body: what it gives back
  bool in_calls_ = false;               // it has calls, or is a body
  std::vector<std::shared_ptr<Stage>> bodies_;
  std::vector<Memory*> edge_memory_;  // by firing index, where FiringNode::leaves
  std::map<std::pair<int32_t, int32_t>, uint32_t> slots_;
  std::map<std::pair<int32_t, int32_t>, uint32_t> source_slots_;
  std::vector<uint32_t> kept_slots_;  // fetched: released by release()
  bool has_async_ = false;            // or what it calls has, in the body of a function
  std::vector<std::string> names_;
  int64_t receives_ = 0;

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
