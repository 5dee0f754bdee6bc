// Work that a step hands out and gets back: a firing of an async kernel, a kernel on another lane.
//
// Owner: the kernel or the scheduler that has it; it holds its step. Thread: any.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "actors/engine/executor.hpp"
#include "actors/engine/firing_trace.hpp"
#include "actors/engine/step.hpp"
#include "devices/async_inputs.hpp"
#include "devices/failure.hpp"
#include "devices/run_context.hpp"

namespace troupe {

inline int64_t tick_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// One firing of an async kernel. It outlives the step if it must: a late answer to an abandoned
// firing is ignored.
class AsyncFiring final : public AsyncContext, public AsyncInputs {
 public:
  AsyncFiring(StepPtr step, Firing firing, const Node* graph_node, std::vector<Tensor> inputs)
      : step_(std::move(step)),
        firing_(firing),
        graph_(firing.state->program.graph),
        node_(graph_node),
        info_(step_->info()),
        inputs_(std::move(inputs)),
        begin_ns_(firing.state->context.trace_begin()) {}

  const Tensor& input(int i) const override { return inputs_[checked(i)]; }
  // The owner thread of the step runs `start`, so it may look at the step's counts.
  Tensor take_input(int i) override {
    const size_t at = checked(i);
    if (step_) {
      StepState& state = *firing_.state;
      const uint32_t slot = state.program.inputs_of(state.node(firing_.node))[at];
      if (state.uses[slot] == 1) state.values[slot].reset();
    }
    return std::move(inputs_[at]);
  }
  const Node& node() const override { return *node_; }
  const RunContext& run() const override { return info_; }
  bool waits() const override { return !answered_.load(std::memory_order_acquire); }
  bool done(std::vector<Tensor> outputs) override {
    return answer(Errc::ok, {}, std::move(outputs));
  }
  void fail(Errc code, std::string text) override { answer(code, std::move(text), {}); }

  // The step does not wait for this firing any more. False: its answer is already in the inbox.
  bool abandon() {
    bool expected = false;
    if (!answered_.compare_exchange_strong(expected, true)) return false;
    step_.reset();
    return true;
  }

 private:
  size_t checked(int i) const {
    const auto at = static_cast<size_t>(i);
    if (at >= inputs_.size()) [[unlikely]]
      refuse_index(*node_, "kernel", "input", i, inputs_.size());
    return at;
  }
  bool answer(Errc code, std::string text, std::vector<Tensor> outputs) {
    bool expected = false;
    if (!answered_.compare_exchange_strong(expected, true)) return false;
    auto arrival = std::make_unique<Arrival>();
    arrival->kind = Arrival::async;
    arrival->firing = firing_;
    arrival->code = code;
    arrival->text = std::move(text);
    arrival->outputs = std::move(outputs);
    const StepPtr step = std::move(step_);
    if (begin_ns_) trace(*firing_.state->executor, "wait", firing_.node, begin_ns_, info_.run);
    step->post(std::move(arrival));
    return true;
  }

  StepPtr step_;
  const Firing firing_;
  const std::shared_ptr<const Graph> graph_;  // a late answer may speak of the node
  const Node* const node_;
  const RunContext info_;
  std::vector<Tensor> inputs_;
  const int64_t begin_ns_;
  std::atomic<bool> answered_{false};
};

// One costly kernel on another lane. It writes the node's slots, which nothing else touches before
// the node has settled.
class LaneJob final : public caf::resumable, public caf::ref_counted {
 public:
  LaneJob(StepPtr step, LaneAdmission::Job job) : step_(std::move(step)), job_(job) {}

  // Runs the kernel and hands the result in. True: the step had no owner and now has us.
  bool run() {
    Step& step = *step_;
    const uint32_t number = job_.firing.node;
    StepState& state = *job_.firing.state;
    StepContext& context = state.context;
    const FiringNode& node = state.node(number);
    Tensor* const outputs = &state.values[node.out];
    auto arrival = std::make_unique<Arrival>();
    arrival->kind = Arrival::job;
    arrival->firing = job_.firing;
    const int64_t wall = context.trace_begin();
    const int64_t begin = job_.timed ? tick_ns() : 0;
    std::optional<WorkCount> work;
    step.pending().begins_on_lane(job_.firing);
    const Failure result = failure_of([&] {
      KernelCall call;
      const NodeView& code = *node.view();
      call.bind(code, state.values.data(), state.program.inputs_of(node), node.n_in, outputs,
                node.n_out, state.memory_of(number, node, context.device_memory), context.info,
                job_.may_reuse);
      if (wall) work.emplace(call);
      code.fire(call);
    });
    step.pending().ends_on_lane(job_.firing);
    if (job_.timed && result.code == Errc::ok) state.executor->sampled(number, tick_ns() - begin);
    if (work)
      trace_kernel(*state.executor, "kernel", number, wall, context.info.run, *work, outputs);
    arrival->code = result.code;
    arrival->text = result.text;
    return step.inbox().hand_in(std::move(arrival));
  }

  resume_result resume(caf::execution_unit*, size_t) override {
    const StepPtr step = step_;
    if (run()) step->own(true);
    return awaiting_message;
  }
  subtype_t subtype() const override { return function_object; }
  void intrusive_ptr_add_ref_impl() override { ref(); }
  void intrusive_ptr_release_impl() override { deref(); }

 private:
  const StepPtr step_;
  const LaneAdmission::Job job_;
};

}  // namespace troupe
