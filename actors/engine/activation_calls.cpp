// Implements the calls of actors/engine/activation.hpp. A call is an activation of the stage that
// is the function's body. It is armed when its turn comes, runs on the thread that its caller ran
// on, and hands what it gives back to its caller's inbox. So what a call inside a call holds is on
// the heap, and no thread's stack grows with the depth.
#include <utility>

#include "actors/engine/firing_jobs.hpp"

namespace troupe {

// What the thread has to do for calls, newest first: so a call ends before the one beside it
// begins, and no more are under way than are inside each other.
class CallRow {
 public:
  CallRow() : outer_(std::exchange(innermost_, this)) {}
  ~CallRow() { innermost_ = outer_; }
  CallRow(const CallRow&) = delete;

  static CallRow& of_this_thread() {
    TROUPE_CHECK(innermost_, "a call outside of Activation::own_calls()");
    return *innermost_;
  }
  void begin(ActivationPtr caller, uint32_t node) { open_.emplace_back(std::move(caller), node); }
  void go_on(ActivationPtr step) { open_.emplace_back(std::move(step), kNone); }

  // A step that is ours, or nullptr if there is nothing more to do.
  ActivationPtr next() {
    while (!open_.empty()) {
      auto [step, node] = std::move(open_.back());
      open_.pop_back();
      if (node == kNone) return step;
      if (ActivationPtr call = step->begin_call(node)) return call;
    }
    return nullptr;
  }

 private:
  static thread_local CallRow* innermost_;
  CallRow* const outer_;
  std::vector<std::pair<ActivationPtr, uint32_t>> open_;
};

thread_local CallRow* CallRow::innermost_ = nullptr;

bool Activation::own_calls(bool may_use_lanes) {
  CallRow row;
  bool ended = go_on(may_use_lanes);  // then this step may be another one already
  while (const ActivationPtr step = row.next()) {
    const bool done = step->go_on(may_use_lanes);
    if (step.get() == this) ended = done;
  }
  return ended;
}

void Activation::call(uint32_t i) {
  const Program::Call& target = stage_.program_.calls[stage_.program_.nodes.roles[i]];
  if (depth_ >= target.depth_max) {
    const Node& function = stage_.program_.graph->node(target.opener);
    return stop(Errc::invalid_argument,
                detail::concat(stage_.program_.place_of(i), ": more than ", target.depth_max,
                               " calls, one inside the other, of the ", describe(function),
                               "; does it always come to a branch that does not call it? If it "
                               "does, raise FunctionOptions::depth_max"));
  }
  ++outstanding_;
  if (!target.has_async) ++calls_;
  CallRow::of_this_thread().begin(ActivationPtr{this}, i);
}

// The call that node `i` is, armed; nullptr if the step has been stopped, or that failed.
ActivationPtr Activation::begin_call(uint32_t i) {
  ActivationPtr call;
  Failure failure{.code = Errc::cancelled};
  if (!stopped())
    failure = failure_of([&] {
      const Program::Call& target = stage_.program_.calls[stage_.program_.nodes.roles[i]];
      call = stage_.body_of(target).begin(info_);
      const uint32_t* in = input_slots(stage_.program_.nodes.firing[i]);
      for (const auto& [input, slot] : target.arguments) call->values_[slot] = values_[in[input]];
      call->caller_step_ = this;
      call->caller_node_ = i;
      call->depth_ = depth_ + 1;
      call->root_ = root_;
      if (!target.has_async) return;
      std::lock_guard lock(root_->mutex_);
      root_->async_calls_.insert(call.get());
    });
  if (failure.code == Errc::ok) return call;
  auto arrival = std::make_unique<Arrival>();
  arrival->kind = Arrival::returned;
  arrival->node = i;
  arrival->code = failure.code;
  arrival->text = std::move(failure.text);
  if (hand_in(std::move(arrival))) CallRow::of_this_thread().go_on(ActivationPtr{this});
  return nullptr;
}

// The call has ended.
void Activation::return_to_caller() {
  stage_.running_.add(-1);
  auto arrival = std::make_unique<Arrival>();
  arrival->kind = Arrival::returned;
  arrival->node = caller_node_;
  if (stopped()) {
    arrival->code = result_.code = Errc::cancelled;
  } else {
    for (uint32_t slot : stage_.program_.interface.results)
      arrival->outputs.push_back(values_[slot]);
  }
  if (stage_.program_.has_async) {
    std::lock_guard lock(root_->mutex_);
    root_->async_calls_.erase(this);
  }
  const ActivationPtr caller = std::exchange(caller_step_, nullptr);
  root_ = this;
  depth_ = 0;
  stage_.release(ActivationPtr{this});
  if (caller->hand_in(std::move(arrival))) CallRow::of_this_thread().go_on(caller);
}

std::string Activation::calls_under_way() const {
  if (depth_ == 0) return {};
  return detail::concat("; in ",
                        stage_.program_.graph->node(stage_.program_.partition.function).name, ", ",
                        depth_, depth_ == 1 ? " call deep" : " calls deep");
}

}  // namespace troupe
