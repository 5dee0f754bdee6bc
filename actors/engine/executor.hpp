// PartitionExecutor: runs the Program of one partition. It owns the program, the op actors of its
// nodes, and the steps that run it (actors/engine/step.hpp).
//
// Code is in the actor, state is in the step: the code of a node belongs to its op actor, and a
// step has values and counts.
//
// Owner: the installation. Lost when it ends: its op actors and steps; a process that waits for one
// of its values hears of that by the step's end or deadline. Thread: any.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <caf/all.hpp>

#include "actors/async/step_messages.hpp"
#include "actors/engine/node_times.hpp"
#include "actors/engine/op_actors.hpp"
#include "actors/engine/program/program.hpp"
#include "actors/engine/run_registry.hpp"
#include "actors/engine/step.hpp"
#include "actors/engine/step_pool.hpp"
#include "actors/observe/trace.hpp"
#include "devices/device.hpp"
#include "devices/run_context.hpp"
#include "devices/threads/thread_index.hpp"
#include "placement/node_costs.hpp"
#include "placement/partition.hpp"

namespace troupe {

// The values that have left over a cut edge so far.
struct EdgeCount {
  int64_t transfers = 0;  // sends, those of control edges and dead values included
  int64_t bytes = 0;      // of tensors
  friend bool operator==(const EdgeCount&, const EdgeCount&) = default;
};

// Where the values of a Send go, and how many went.
struct SendPort {
  OpHandle receiver;
  std::atomic<int64_t> bytes{0};
  std::atomic<int64_t> transfers{0};
};

class Cores;
class Lanes;

// The process as an executor sees it. All of it outlives the executor.
struct ExecutorHost {
  caf::actor_system* system = nullptr;
  Device* device = nullptr;
  Tracer* tracer = nullptr;
  int lanes = 1;              // threads that may run kernels side by side
  Lanes* op_lanes = nullptr;  // for the jobs of one kernel; null: its own thread does them
  Cores* cores = nullptr;     // where lanes and callers compute; null: nobody looks
  // How many actors wait for a lane; null: nobody counts. See Step::own().
  const std::atomic<int64_t>* actors_waiting = nullptr;
  std::shared_ptr<NodeCosts> costs;  // measured by other executors; null: nothing is known
  // Where a value that leaves over that edge is made; nullptr: where all others are.
  std::function<Memory*(const Edge&)> edge_memory;
  Memory* push_memory = nullptr;  // where gradients that are pushed are made; null: the same
  std::function<void(const std::string&)> warn;  // one line for a person
  std::function<void(const caf::strong_actor_ptr&)>
      replaced;  // an op actor was made anew under its old id
};

class PartitionExecutor : public std::enable_shared_from_this<PartitionExecutor> {
 public:
  // Compiles `partition`. Throws: Error(invalid_argument) naming node and device when there is no
  // kernel.
  static std::shared_ptr<PartitionExecutor> make(uint64_t session, uint32_t executable,
                                                 std::shared_ptr<const Graph> graph,
                                                 Partition partition, const ExecutorHost& host);
  PartitionExecutor(const PartitionExecutor&) = delete;

  const Program& program() const { return program_; }
  const ExecutorHost& host() const { return host_; }
  uint32_t executable() const { return executable_; }
  const std::string& device() const { return program_.partition.device; }
  // The executors of the loops that run here, and of the functions that are called.
  const std::vector<std::unique_ptr<PartitionExecutor>>& bodies() const { return bodies_; }
  PartitionExecutor& body(uint32_t number) const { return *root_->bodies_[number]; }
  // The op actor behind a node; every node of the program has one.
  OpHandle op_actor(uint32_t node) const { return op_actors_.at(node); }
  // The op actor that does the work of the node of that name, here or in a body; null if none does.
  OpHandle op_actor(const std::string& node) const;
  std::map<int32_t, OpHandle> receivers() const;         // by edge
  void connect(int32_t edge, const OpHandle& receiver);  // before the first step

  // Arms a step. The caller owns it: it sets sources, then calls own(), or puts it on the lanes.
  // `on_end` is called on the thread that ends the step; without it, a caller waits with
  // Step::wait(). The step is given back with release() once it has ended and its fetched values
  // have been taken.
  StepPtr begin(const RunContext& info, std::function<void(Step&)> on_end = nullptr);
  void release(StepPtr step);
  // The caches of all idle steps on `device`, of every executor of the process, go back to the
  // device's memory. Called when an allocation fails.
  static void free_idle(const Device* device) { StepPool::free_idle(device); }

  // A value for one of the edges that end here; from an op actor's door. Only stores and schedules.
  void deliver(Deliver message);
  // Ends `run` here with that reason, now or as soon as it is armed; does nothing once it has
  // ended. A step that its caller holds and that waits for nobody (no receives, no async kernels)
  // is interrupted by its caller.
  void cancel(int64_t run, Errc code, const std::string& text);
  void cancel_all(Errc code, const std::string& text);
  // The runs of the session before this one are over, here and everywhere.
  void forget_before(int64_t run) { runs_.forget_before(run); }
  // Names of nodes; empty for a step that waits for nobody.
  std::vector<std::string> waiting_for(int64_t run);

  // Throws: as with_op(), if the node fires here and `op` does not fit.
  void check(const std::string& node, const std::shared_ptr<const Op>& op) const;
  // For op actors. The code with another op for the node of that name; `here`: the op itself, else
  // it is looked up. Throws: as with_op(), and Error(invalid_argument) for an unknown op.
  OpCodePtr code_with(const NodeView& code, const std::string& node, const std::string& op,
                      const std::shared_ptr<const Op>& here) const;
  // Steps that begin from now on fire `next`, and those that run may. Returns the code that fires.
  OpCodePtr fire_from_now_on(uint32_t node, const OpCodePtr& former, OpCodePtr next) {
    return op_actors_.fire_from_now_on(node, former, std::move(next));
  }
  // An op actor was killed, with its code: both are made anew; no step notices.
  void restart_op(uint32_t node, OpCodePtr lost, const std::string& reason);
  int64_t cost_of(uint32_t node) const { return times_.of(node); }  // nanoseconds; 0: not measured

  int64_t running() const { return running_.sum(); }
  std::map<int32_t, EdgeCount> edge_counts() const;  // by edge that leaves this executor
  // How long nodes fire, in nanoseconds, by node of the graph, as far as it was measured.
  std::map<int32_t, int64_t> costs() const;
  int64_t kernel_restarts() const;
  int64_t op_restarts() const;

  // For steps of this executor.
  // The name of a node of this program or of a body.
  const std::string& name_of(const FiringNode* node) const;
  SendPort& port(uint32_t send) { return ports_[send]; }
  Key key_of(int64_t run, int32_t edge) const { return {session_, executable_, run, 0, 0, edge}; }
  void sampled(uint32_t node, int64_t took_ns) { times_.sampled(node, took_ns); }
  void kernel_runs_again(uint32_t node, int64_t run, int attempt, const std::string& error);
  void ended(Step& step, bool registered);

 private:
  PartitionExecutor(uint64_t session, uint32_t executable, Program program,
                    const ExecutorHost& host);
  // Keeps the outermost executor, and with it this one.
  std::shared_ptr<PartitionExecutor> shared() { return {root_->shared_from_this(), this}; }

  const uint64_t session_;
  const uint32_t executable_;
  const ExecutorHost host_;
  Program program_;
  std::vector<SendPort> ports_;  // by Program::Edges::sends
  std::vector<std::unique_ptr<PartitionExecutor>> bodies_;
  PartitionExecutor* root_ = this;  // the one that has the bodies
  NodeTimes times_;
  std::atomic<int64_t> kernel_restarts_{0};
  Tally running_;
  StepPool pool_;
  RunRegistry runs_;
  OpActors op_actors_;
};

}  // namespace troupe
