// Step: one run of a Program, with the iterations of its loops and the calls of its functions. It
// fires ready nodes until it has nothing more to do, waits for what is outstanding, and ends.
// Kernels are fired by drain() (actors/engine/step.cpp).
//
// A step has one owner thread at a time, so its counters are plain. Answers of async kernels, lane
// jobs and other devices come through the inbox, and a thread that finds the step without an owner
// becomes its owner.
//
// Owner: the executor of the program, which recycles it. Thread: own() and the parts are the owner
// thread's; post(), stop(), interrupt() and waiting_for() are for any thread.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <caf/all.hpp>

#include "actors/engine/inbox.hpp"
#include "actors/engine/lane_admission.hpp"
#include "actors/engine/loop_states.hpp"
#include "actors/engine/parking.hpp"
#include "actors/engine/pending.hpp"
#include "actors/engine/step_calls.hpp"
#include "actors/engine/step_result.hpp"
#include "actors/engine/step_state.hpp"
#include "devices/run_context.hpp"

namespace troupe {

class LaneJob;
class PartitionExecutor;
class Step;
using StepPtr = caf::intrusive_ptr<Step>;

// A node's kernel may throw this often in one step; once more, and the step fails.
inline constexpr int kKernelRestartsMax = 3;

class Step final : public caf::resumable, public caf::ref_counted {
 public:
  explicit Step(PartitionExecutor& executor);
  ~Step() override;

  void set_source(uint32_t slot, Tensor value) { state_.values[slot] = std::move(value); }
  const Tensor& value(uint32_t slot) const { return state_.values[slot]; }
  const StepResult& result() const { return result_; }
  const RunContext& info() const { return context_.info; }
  PartitionExecutor& executor() { return executor_; }

  // Fires what is ready. Requires: the caller is the owner. True: the step has ended in this call.
  // `yields`: the caller is a lane. If it is the only one, and actors wait for it, the step goes
  // behind them before a costly node: a shard of the process would else answer its peers after the
  // step.
  bool own(bool may_use_lanes, bool yields = false);
  // Sleeps until the step has ended, firing what becomes ready. False: the deadline passed.
  bool wait(std::chrono::steady_clock::time_point deadline);
  // Any thread: hands something in. A step without an owner is given to its sleeping caller, or to
  // a lane.
  void post(std::unique_ptr<Arrival> arrival);
  // Any thread. The step ends soon with this result.
  void stop(Errc code, std::string text);
  void interrupt(Errc code, std::string text);  // stop(), and wake the step if it sleeps
  // Any thread. The nodes that this step waits for outside its owner, for reports.
  std::vector<std::string> waiting_for();

  // caf::resumable: a lane runs a step that has no owner.
  resume_result resume(caf::execution_unit* unit, size_t) override;
  subtype_t subtype() const override { return unspecified; }  // before op jobs (lane_scheduler.hpp)
  void intrusive_ptr_add_ref_impl() override { ref(); }
  void intrusive_ptr_release_impl() override { deref(); }

  // The executor: begins a run, puts it on the lanes, lets go of its values. `registered`: it is
  // known by its number, so something may arrive for it.
  void arm(const RunContext& info, bool registered, std::function<void(Step&)> on_end);
  void schedule();
  void clear();

  // The parts of the engine that act on a step: edges, jobs.
  Pending& pending() { return pending_; }
  LaneAdmission& lanes() { return lanes_; }
  LoopStates& loops() { return loops_; }
  Inbox& inbox() { return inbox_; }
  StepState& state() { return state_; }
  bool stopped() const { return pending_.stopped(); }
  // stop(), naming the calls of functions around `where`.
  void stop_in(const StepState& where, Errc code, const std::string& text);
  // The state has ready nodes, perhaps.
  void go_on(StepState& state);
  // True: the kernel runs again, now or when there is memory. Else the step is stopped.
  bool kernel_failed(Firing failed, Errc code, const std::string& said);

 private:
  void drain(StepState& s, bool may_use_lanes);
  void drain_all(bool may_use_lanes);
  void fire_special(StepState& s, uint32_t i, bool may_use_lanes);
  void fire_control(StepState& s, uint32_t i);
  void fire_observed(StepState& s, uint32_t i);
  void end(StepState& body);
  void begin_call();
  void iteration_begins(StepState& body);
  void abandon();
  std::unique_ptr<LaneJob> hand_out();
  void finish();

  PartitionExecutor& executor_;
  StepContext context_;
  StepState state_;
  Inbox inbox_;
  Pending pending_;
  LaneAdmission lanes_;
  LoopStates loops_;
  StepCalls calls_;
  std::vector<StepState*> row_;  // states with ready nodes, perhaps; the last one goes first
  Parking parking_;
  StepResult result_;
  std::function<void(Step&)> on_end_;
  std::map<Firing, int> restarts_;  // how often the node's kernel has thrown
  bool fenced_ = false;
  bool registered_ = false;
};

}  // namespace troupe
