// Stage: one partition of a graph on one device, compiled for firing. It owns the op actors of its
// nodes and the activations of its running steps.
//
// Code in the actor, state in the activation: a node's kernel belongs to its op actor; what one
// step has of it (values, counts of what is missing and of who still reads) is in an Activation. A
// step has one owner thread at a time, so the counters are plain; results of async kernels, lane
// jobs and other devices come through one inbox, and whoever finds the step without an owner
// becomes it.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include <caf/all.hpp>

#include "actors/trace.hpp"
#include "devices/device.hpp"
#include "devices/pool.hpp"
#include "net/messages.hpp"
#include "placement/partition.hpp"

namespace troupe {

class Stage;
class Activation;

enum class NodeKind : uint8_t { plain, async, send, source, queued };

// What the firing loop reads of a node: one cache line. Nodes are numbered in firing order.
struct alignas(64) FiringNode {
  void (*run)(KernelContext&) = nullptr;
  const NodeView* view = nullptr;
  uint32_t in[4] = {};  // value slots read; past four, in[0] is an offset into the stage's table
  uint32_t to[4] = {};  // nodes counted down; past four, to[0] is an offset
  uint32_t out = 0;     // first value slot written
  uint32_t n_to = 0;
  uint16_t n_in = 0;
  uint16_t n_out = 0;
  NodeKind kind = NodeKind::plain;
  std::atomic<bool> costly{false};  // worth a lane of its own, by measurement
};
static_assert(sizeof(FiringNode) == 64);

// How a step ended.
struct StepResult {
  Errc code = Errc::ok;
  std::string text;
};

// A node's kernel may throw this often in one step; once more, and the step fails.
inline constexpr int kKernelRestartsMax = 3;
// From this cost on an op is worth handing to another lane (lanes.md: jobs of 5 us reach 96 % of
// two cores).
inline constexpr std::chrono::nanoseconds kCostlyFrom{20'000};
// One step in this many is timed node by node.
inline constexpr int64_t kSampleEvery = 64;
// Values and cancellations for steps that have not been armed here yet, per stage. A cut edge holds
// at most one value per step in flight.
inline constexpr size_t kEarlyMax = 4096;

// Something that came back to a step from outside its owner thread.
struct Arrival {
  Arrival* next = nullptr;
  enum Kind : uint8_t { job, async, deliver, wake, fence } kind = wake;
  uint32_t node = 0;
  int32_t edge = -1;
  bool dead = false;
  Errc code = Errc::ok;
  std::string text;
  std::vector<Tensor> outputs;
};

// The state of one step in one stage. Recycled; armed with copies of two arrays.
class Activation final : public caf::resumable, public caf::ref_counted {
 public:
  explicit Activation(Stage& stage);
  ~Activation() override;

  void set_source(uint32_t slot, Tensor value) { values_[slot] = std::move(value); }
  const Tensor& value(uint32_t slot) const { return values_[slot]; }
  const StepResult& result() const { return result_; }
  const RunContext& info() const { return info_; }
  Stage& stage() { return stage_; }

  // Takes the step over if nobody owns it and fires what is ready. Returns true if the step has
  // ended in this call.
  bool own(bool may_use_lanes);
  // From any thread: hands something in. If the step had no owner, wakes the waiting caller or
  // schedules the step on the lanes.
  void post(std::unique_ptr<Arrival> arrival);
  // Any thread. The step ends soon with this result; nothing else is lost.
  void stop(Errc code, std::string text);
  void interrupt(Errc code, std::string text);  // stop(), and wake the step if it sleeps
  // The nodes this step waits for outside its owner, for the message that says who waits for whom.
  // Any thread.
  std::vector<std::string> waiting_for();

  // caf::resumable: an activation without an owner is scheduled as a job.
  resume_result resume(caf::execution_unit* unit, size_t) override;
  subtype_t subtype() const override { return unspecified; }  // before op jobs (lane_scheduler.hpp)
  void intrusive_ptr_add_ref_impl() override { ref(); }
  void intrusive_ptr_release_impl() override { deref(); }

 private:
  friend class Stage;
  friend class AsyncFiring;
  friend class LaneJob;

  void settle(uint32_t i, bool dead);
  void make_ready(uint32_t i) {
    if (next_ != kNone) ready_[top_++] = next_;
    next_ = i;
  }
  void drain(bool may_use_lanes);
  bool next_sends(uint32_t& i);
  void pass_on();
  void fire(uint32_t i, const FiringNode& node);
  void fire_special(uint32_t i, const FiringNode& node, bool may_use_lanes);
  void start_async(uint32_t i, const FiringNode& node);
  void send(uint32_t i);
  void handle(Arrival& arrival);
  bool kernel_failed(uint32_t i, Errc code, const std::string& text);
  void abandon();
  void finish();
  const uint32_t* input_slots(const FiringNode& node) const;
  void bind(KernelCall& call, const FiringNode& node, Memory& memory);
  void observed_fire(uint32_t i, const FiringNode& node);

  static constexpr uint32_t kNone = ~0u;
  static Arrival* free_tag();

  // Owned by the step's owner thread.
  Stage& stage_;
  std::vector<Tensor> values_;
  std::vector<int32_t> missing_;
  std::vector<int32_t> uses_;
  std::vector<uint32_t> ready_;
  size_t top_ = 0;
  uint32_t next_ = kNone;
  int64_t outstanding_ = 0;  // nodes fired but not settled, and values not received
  std::vector<std::pair<uint32_t, int>> restarts_;  // node -> how often its kernel has thrown
  bool observe_ = false;                            // this step is timed or traced
  bool fenced_ = false;
  bool registered_ = false;     // in the stage's table of runs: something may arrive for it
  std::vector<bool> received_;  // by edge index of the stage
  std::vector<std::unique_ptr<class LaneJob>> batch_;
  KernelCall call_;
  RunContext info_;
  StepResult result_;
  std::unique_ptr<PoolCache> cache_;  // null on a device whose memory the host cannot touch

  // Shared.
  std::atomic<Arrival*> inbox_;
  std::atomic<bool> stop_{false};
  std::atomic<uint32_t> now_{kNone};  // the node being fired, for the watchdog
  std::mutex mutex_;                  // guards the four below
  std::condition_variable parking_;   // where a caller sleeps
  StepResult stop_reason_;
  std::unordered_map<uint32_t, std::shared_ptr<class AsyncFiring>> async_;
  std::vector<bool> awaited_edges_;
  std::function<void(Activation&)> on_end_;
  std::atomic<int> caller_{0};  // 1: a caller sleeps until there is work or an end
  std::atomic<bool> ended_{false};
};

using ActivationPtr = caf::intrusive_ptr<Activation>;

// What a stage needs of the process it is in. All of it outlives the stage.
struct StageHost {
  caf::actor_system* system = nullptr;
  Device* device = nullptr;
  Tracer* tracer = nullptr;
  int lanes = 1;                                 // threads that may run kernels side by side
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
  const std::string& device() const { return partition_.device; }
  // The op actor behind a node or a receiving edge; every node of the partition has one.
  caf::actor op_actor(uint32_t firing_index) const;
  std::map<int32_t, caf::actor> receivers() const;  // by edge
  void connect(int32_t edge, caf::actor receiver);  // before the first step

  // Arms a step. The caller owns it: set sources, then call own().
  // `on_end` is called on the thread that ends the step; without it, a caller waits with wait().
  // Whoever holds the step gives it back with release() once it has ended and its fetched values
  // have been taken.
  ActivationPtr begin(const RunContext& info, std::function<void(Activation&)> on_end = nullptr);
  void release(ActivationPtr step);
  // Puts an armed step on the lanes instead of firing it on this thread.
  void schedule(const ActivationPtr& step);
  std::vector<std::string> waiting_for(int64_t run);
  // Sleeps until the step has ended, firing what becomes ready. False: the deadline passed.
  bool wait(Activation& step, std::chrono::steady_clock::time_point deadline);
  // A value for one of this stage's edges; from an op actor's door. Any thread; only stores and
  // schedules.
  void deliver(Deliver message);
  // Ends `run` here with that reason, now or as soon as it is armed; does nothing once it has
  // ended. A step that waits for nobody (no receives, no async kernels) just runs to its end. Any
  // thread.
  void cancel(int64_t run, Errc code, const std::string& text);
  void cancel_all(Errc code, const std::string& text);
  // An op actor was killed: its code is made anew from the node; no step notices.
  void restart_op(uint32_t firing_index, const std::string& reason);

  // The value slot of a fetched or fed output; kNoSlot if it is not here.
  static constexpr uint32_t kNoSlot = ~0u;
  uint32_t slot_of(int32_t node, int32_t output) const;
  uint32_t source_slot(int32_t node, int32_t output) const;
  size_t node_count() const { return nodes_.size(); }
  int64_t running() const { return running_.load(std::memory_order_relaxed); }
  std::string name_of(uint32_t firing_index) const;
  std::map<int32_t, int64_t> edge_bytes() const;      // sent, by edge
  std::map<int32_t, int64_t> edge_transfers() const;  // sends, by edge
  int64_t kernel_restarts() const { return kernel_restarts_.load(std::memory_order_relaxed); }
  int64_t op_restarts() const { return op_restarts_.load(std::memory_order_relaxed); }
  int64_t fired() const { return fired_.load(std::memory_order_relaxed); }

 private:
  friend class Activation;
  friend class AsyncFiring;
  friend class LaneJob;

  struct SendPort {
    int32_t edge = -1;
    uint32_t slot = 0;
    bool control = false;
    caf::actor receiver;
    std::atomic<int64_t> bytes{0};
    std::atomic<int64_t> transfers{0};
  };

  Stage(uint64_t session, uint32_t executable, std::shared_ptr<const Graph> graph,
        Partition partition, StageHost host);
  ActivationPtr acquire();
  static constexpr size_t kIdleActivationsMax = 32;  // steps in flight past this allocate
  static constexpr int64_t kEndedWindow = 1024;      // runs end out of order by less than this
  // Both: requires mutex_.
  bool has_ended(int64_t run) const;
  void ended(int64_t run);
  bool waits() const { return receives_ > 0 || has_async_; }  // for something from outside
  void sampled(uint32_t node, int64_t took_ns);               // a kernel was timed

  const uint64_t session_;
  const uint32_t executable_;
  const std::shared_ptr<const Graph> graph_;
  const Partition partition_;
  const StageHost host_;

  // Compiled; not changed after connect().
  std::vector<FiringNode> nodes_;
  std::vector<NodeView> views_;
  std::vector<uint32_t> more_;     // long input and reader lists
  std::vector<Tensor> constants_;  // by slot; undefined where a node writes
  std::vector<int32_t> missing_;
  std::vector<int32_t> uses_;
  std::vector<uint32_t> first_ready_;
  std::vector<std::pair<int32_t, uint32_t>> receive_nodes_;  // edge -> firing index, sorted
  std::vector<std::unique_ptr<SendPort>> sends_;
  std::vector<int32_t> send_of_;  // firing index -> sends_, or -1
  std::map<std::pair<int32_t, int32_t>, uint32_t> slots_;
  std::map<std::pair<int32_t, int32_t>, uint32_t> source_slots_;
  std::vector<uint32_t> kept_slots_;  // fetched: released by release()
  bool has_async_ = false;
  std::vector<std::string> names_;
  int64_t receives_ = 0;

  // Measured.
  std::vector<std::atomic<int64_t>> cost_ns_;
  std::atomic<int64_t> steps_{0};
  std::atomic<int64_t> kernel_restarts_{0};
  std::atomic<int64_t> op_restarts_{0};
  std::atomic<int64_t> fired_{0};
  std::atomic<int64_t> running_{0};

  mutable std::mutex mutex_;  // guards the rest
  std::vector<caf::strong_actor_ptr> actors_;
  std::unordered_map<int64_t, ActivationPtr> runs_;
  std::map<int64_t, std::vector<Deliver>> early_;  // by run
  size_t early_count_ = 0;
  std::map<int64_t, StepResult> early_cancels_;  // by run
  int64_t newest_ended_ = -1;
  std::vector<int64_t> ended_ =
      std::vector<int64_t>(kEndedWindow, -1);  // run % kEndedWindow -> run
  std::vector<ActivationPtr> idle_;
};

}  // namespace troupe
