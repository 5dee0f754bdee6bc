// Activation: one step in one stage. Its code belongs to the stage's op actors; what is here is
// what one step has: values, counts of what is missing and of who still reads them.
//
// A step has one owner thread at a time, so the counters are plain; results of async kernels, lane
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
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <caf/all.hpp>

#include "actors/engine/program.hpp"
#include "actors/observe/trace.hpp"
#include "devices/device.hpp"
#include "devices/memory/pool.hpp"
#include "troupe/op.hpp"

namespace troupe {

class Stage;
class AsyncFiring;
class LaneJob;
class Activation;
using ActivationPtr = caf::intrusive_ptr<Activation>;

// How a step ended.
struct StepResult {
  Errc code = Errc::ok;
  std::string text;
};

// A node's kernel may throw this often in one step; once more, and the step fails.
inline constexpr int kKernelRestartsMax = 3;
// From this cost on an op is worth handing to another lane: a hand-over takes about 5 us.
inline constexpr std::chrono::nanoseconds kCostlyFrom{20'000};
// Of the steps of an activation one in this many is timed node by node; the second is the first.
inline constexpr int64_t kSampleEvery = 64;

// Something that came back to a step from outside its owner thread.
struct Arrival {
  Arrival* next = nullptr;
  enum Kind : uint8_t { job, async, deliver, wake, fence, returned } kind = wake;
  uint32_t node = 0;
  int32_t edge = -1;
  int64_t iteration = 0;
  bool dead = false;
  Errc code = Errc::ok;
  std::string text;
  std::vector<Tensor> outputs;
};

// What one step has of one loop. Iterations are counted over the whole step, so that those of a
// loop inside another have numbers of their own.
struct LoopState {
  int64_t iteration = -1;  // under way, or the last one
  int64_t first = 0;       // of the time that the loop runs now
  bool running = false;
  bool held = false;          // its turn waits for those who follow
  bool observed = false;      // what is around the loop is timed; its iterations decide anew
  std::vector<int64_t> acks;  // how many iterations each of them has ended
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
  friend class CallRow;

  // The firing loop (activation_fire.cpp).
  bool go_on(bool may_use_lanes);
  void settle(uint32_t i, bool dead);
  void settle_arrived(uint32_t i, bool dead);  // the same, for other files
  void make_ready(uint32_t i) {
    if (next_ != kNone) ready_[top_++] = next_;
    next_ = i;
  }
  void drain(bool may_use_lanes);
  bool next_sends(uint32_t& i);
  void fire_special(uint32_t i, const FiringNode& node, bool may_use_lanes);
  // Nodes of control flow (activation_control.cpp).
  void fire_control(uint32_t i, const FiringNode& node);
  void fire_dead(uint32_t i, const FiringNode& node);
  void choose(uint32_t i, const FiringNode& node);
  void merge(uint32_t i, const FiringNode& node);
  void begin_loop(uint32_t driver);
  void arm_iteration(size_t loop);
  void turn(uint32_t i);
  bool must_wait(size_t loop, bool again) const;
  void next_iteration(size_t loop);
  void end_loop(size_t loop);
  void drop_variables(size_t loop);
  void release_variables(size_t loop);
  void drop(uint32_t slot);
  void check_next(size_t loop) const;
  void acknowledged(size_t loop, uint32_t node, int64_t iteration);
  bool comes_early(size_t edge_index, Arrival& arrival);
  std::string loops_under_way() const;
  // A node that finds no memory while others of the step hold some (activation_room.cpp).
  bool put_off(uint32_t i);
  void try_one_again();
  uint32_t take_put_off();
  bool make_room();
  // Calls of functions (activation_calls.cpp). Each has an activation of its own, of the stage that
  // is the function's body; the first one of them all says when they stop, and why.
  bool stopped() const { return root_->stop_.load(std::memory_order_acquire); }
  bool own_calls(bool may_use_lanes);
  void call(uint32_t i);
  ActivationPtr begin_call(uint32_t i);
  void return_to_caller();
  std::string calls_under_way() const;
  void start_async(uint32_t i, const FiringNode& node);
  void launch(uint32_t i, const FiringNode& node);
  void observed_fire(uint32_t i, const FiringNode& node);
  const uint32_t* input_slots(const FiringNode& node) const;
  void bind(KernelCall& call, const FiringNode& node, Memory& memory);
  Memory& own_memory();
  // Where the outputs of a node come from: `own`, or the memory of the edge they leave by.
  Memory& memory_of(uint32_t i, const FiringNode& node, Memory& own) const;
  bool kernel_failed(uint32_t i, Errc code, const std::string& text);
  bool give_back(const FiringNode& node);
  std::unique_ptr<LaneJob> hand_out();
  // Which costly nodes lanes get, and when (activation_room.cpp).
  void to_lane(uint32_t i, const FiringNode& node);
  void wait_for_room(uint32_t i, const FiringNode& node);
  void let_go();
  void off_lane(uint32_t i);
  bool fence();
  int64_t trace_begin() const { return armed_ns_ ? Tracer::now_ns() : 0; }

  // What comes and goes (activation_edges.cpp).
  void send(uint32_t i);
  void handle(Arrival& arrival);
  void received(Arrival& arrival);
  void answered(Arrival& arrival);
  void returned(Arrival& arrival);
  void copy_in(uint32_t i, const Tensor& value);

  // Its life (activation.cpp).
  void begins_on_lane(uint32_t node);
  void ends_on_lane(uint32_t node);
  bool hand_in(std::unique_ptr<Arrival> arrival);  // true: nobody owned the step, and now we do
  void pass_on();
  void abandon();
  void finish();

  static constexpr int32_t kDeadBit = 1 << 30;  // in missing_: an input of the node is dead
  static Arrival* free_tag();                   // in inbox_: nobody owns the step

  // Owned by the step's owner thread.
  Stage& stage_;
  std::vector<Tensor> values_;
  std::vector<int32_t> missing_;
  std::vector<int32_t> uses_;
  std::vector<uint32_t> ready_;
  size_t top_ = 0;
  uint32_t next_ = kNone;
  int64_t outstanding_ = 0;  // nodes fired but not settled, and values not received
  int64_t jobs_ = 0;         // of these on lanes
  int64_t calls_ = 0;        // and of functions that wait for nobody
  // In a stage that gives nodes turns (activation_room.cpp): nodes that wait for theirs, the first
  // one first; those on lanes, and one of them that is ahead of its own turn.
  std::vector<uint32_t> waiting_, on_their_way_;
  uint32_t ahead_ = kNone;
  std::vector<uint32_t> put_off_;  // nodes that found no memory beside others of the step
  // Of these, one that is fired with nothing beside it; forgotten when an iteration is armed, as
  // the same node fires for that one, too.
  uint32_t last_try_ = kNone;
  std::vector<std::pair<uint32_t, int>> restarts_;  // node -> how often its kernel has thrown
  int64_t armed_ = 0;                               // how often
  bool observe_ = false;                            // this step is timed or traced
  int64_t armed_ns_ = 0;                            // Tracer::now_ns() if it is traced, else 0
  bool fenced_ = false;
  bool registered_ = false;       // in the stage's table of runs: something may arrive for it
  std::vector<bool> received_;    // by edge index of the stage; true where nothing is awaited
  std::vector<LoopState> loops_;  // by loop of the stage
  std::vector<std::vector<Tensor>> saved_;  // by save of the stage: values by iteration
  std::vector<Tensor> next_values_;         // of variables, on their way to the next iteration
  std::map<std::pair<size_t, int64_t>, Arrival> early_;  // by edge index and iteration
  std::vector<std::unique_ptr<LaneJob>> batch_;
  KernelCall call_;
  RunContext info_;
  StepResult result_;
  std::function<void(Activation&)> on_end_;
  std::unique_ptr<PoolCache> cache_;  // null on a device whose memory the host cannot touch
  ActivationPtr caller_step_;         // of a call: who waits for what it gives back
  uint32_t caller_node_ = kNone;
  int64_t depth_ = 0;        // calls, one inside the other, that this one is in
  Activation* root_ = this;  // the step that they all belong to; its callers keep it

  // Shared.
  std::atomic<Arrival*> inbox_;
  std::atomic<bool> stop_{false};
  std::atomic<uint32_t> now_{kNone};  // the node being fired, for the watchdog
  std::condition_variable parking_;   // where a caller sleeps, with mutex_
  std::mutex mutex_;                  // guards the five below; taken after the stage's
  StepResult stop_reason_;
  std::unordered_map<uint32_t, std::shared_ptr<AsyncFiring>> async_;  // by node
  std::vector<bool> awaited_edges_;                                   // as received_, negated
  std::vector<uint32_t> on_lanes_;                                    // nodes that lanes run now
  std::set<Activation*> async_calls_;  // at the root: calls whose body may wait for what is outside
  // 1: a caller sleeps until there is work or an end. 2: it has been given the step.
  std::atomic<int> caller_{0};
  std::atomic<bool> ended_{false};
};

}  // namespace troupe
