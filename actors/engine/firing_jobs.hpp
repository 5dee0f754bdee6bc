// What a step hands out and gets back: an async kernel's firing, a kernel on another lane. Part of
// the implementation of actors/engine/activation.hpp.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "actors/engine/stage.hpp"
#include "devices/async_inputs.hpp"
#include "devices/failure.hpp"

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
  AsyncFiring(ActivationPtr step, uint32_t node, const Node* graph_node, std::vector<Tensor> inputs)
      : step_(std::move(step)),
        firing_index_(node),
        graph_(step_->stage_.program_.graph),
        node_(graph_node),
        info_(step_->info()),
        inputs_(std::move(inputs)),
        begin_ns_(step_->trace_begin()) {}

  const Tensor& input(int i) const override { return inputs_[checked(i)]; }
  // The thread that owns the step runs `start`, so it may look at its counts.
  Tensor take_input(int i) override {
    const size_t at = checked(i);
    if (step_) {
      Activation& a = *step_;
      const uint32_t slot = a.input_slots(a.stage_.program_.nodes.firing[firing_index_])[at];
      if (a.uses_[slot] == 1) a.values_[slot].reset();
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
      detail::refuse_index(*node_, "kernel", "input", i, inputs_.size());
    return at;
  }
  bool answer(Errc code, std::string text, std::vector<Tensor> outputs) {
    bool expected = false;
    if (!answered_.compare_exchange_strong(expected, true)) return false;
    auto arrival = std::make_unique<Arrival>();
    arrival->kind = Arrival::async;
    arrival->node = firing_index_;
    arrival->code = code;
    arrival->text = std::move(text);
    arrival->outputs = std::move(outputs);
    ActivationPtr step = std::move(step_);
    if (begin_ns_) step->stage_.trace("wait", firing_index_, begin_ns_, info_.run);
    step->post(std::move(arrival));
    return true;
  }

  ActivationPtr step_;
  const uint32_t firing_index_;
  const std::shared_ptr<const Graph> graph_;  // a late answer may speak of the node
  const Node* const node_;
  const RunContext info_;
  std::vector<Tensor> inputs_;
  const int64_t begin_ns_;
  std::atomic<bool> answered_{false};
};

// One costly kernel on another lane. Writes the node's value slots, which nobody else touches
// before the node has settled.
class LaneJob final : public caf::resumable, public caf::ref_counted {
 public:
  // What the owner of the step decides: whether input 0 may be reused, and whether this is timed.
  LaneJob(ActivationPtr step, uint32_t node, bool may_reuse, bool timed)
      : step_(std::move(step)), node_(node), may_reuse_(may_reuse), timed_(timed) {}

  // Runs the kernel and hands the result in. True: the step had no owner and now has us.
  bool run() {
    Activation& a = *step_;
    const FiringNode& node = a.stage_.program_.nodes.firing[node_];
    auto arrival = std::make_unique<Arrival>();
    arrival->kind = Arrival::job;
    arrival->node = node_;
    const int64_t wall = a.trace_begin();
    const int64_t begin = timed_ ? tick_ns() : 0;
    std::optional<WorkCount> work;
    a.begins_on_lane(node_);
    const Failure result = failure_of([&] {
      KernelCall call;
      call.bind(*node.view, a.values_.data(), a.input_slots(node), node.n_in, &a.values_[node.out],
                node.n_out, a.memory_of(node_, node, a.stage_.host_.device->memory()), a.info_,
                may_reuse_);
      if (wall) work.emplace(call);
      node.run.load(std::memory_order_relaxed)(call.context);
    });
    a.ends_on_lane(node_);
    if (timed_ && result.code == Errc::ok) a.stage_.sampled(node_, tick_ns() - begin);
    if (work)
      a.stage_.trace_kernel("kernel", node_, wall, a.info_.run, *work, &a.values_[node.out]);
    arrival->code = result.code;
    arrival->text = result.text;
    return a.hand_in(std::move(arrival));
  }

  resume_result resume(caf::execution_unit*, size_t) override {
    ActivationPtr step = step_;
    if (run()) step->own(true);
    return awaiting_message;
  }
  subtype_t subtype() const override { return function_object; }
  void intrusive_ptr_add_ref_impl() override { ref(); }
  void intrusive_ptr_release_impl() override { deref(); }

 private:
  const ActivationPtr step_;
  const uint32_t node_;
  const bool may_reuse_, timed_;
};

}  // namespace troupe
