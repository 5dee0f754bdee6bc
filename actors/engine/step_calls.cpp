// Calls of functions: a thread has a row of calls that it has to begin or to go on with.
#include "actors/engine/step_calls.hpp"

#include <utility>
#include <vector>

#include "actors/engine/executor.hpp"
#include "actors/engine/value_type.hpp"
#include "devices/failure.hpp"

namespace troupe {
namespace {

// The step that a Call node's body takes, armed; nullptr if the caller has been stopped, or that
// failed.
StepPtr begin_call(Step& caller, uint32_t i);

// The work of a thread for calls, newest first: so a call ends before the one beside it begins, and
// no more are under way than are inside each other.
class CallRow {
 public:
  CallRow() : outer_(std::exchange(innermost_, this)) {}
  ~CallRow() { innermost_ = outer_; }
  CallRow(const CallRow&) = delete;

  static CallRow& of_this_thread() {
    TROUPE_CHECK(innermost_, "a call outside of own_with_calls()");
    return *innermost_;
  }
  void begin(StepPtr caller, uint32_t node) { open_.emplace_back(std::move(caller), node); }
  void resume(StepPtr step) { open_.emplace_back(std::move(step), kNone); }

  // A step that is ours, or nullptr if there is nothing more to do.
  StepPtr next() {
    while (!open_.empty()) {
      auto [step, node] = std::move(open_.back());
      open_.pop_back();
      if (node == kNone) return step;
      if (StepPtr call = begin_call(*step, node)) return call;
    }
    return nullptr;
  }

 private:
  static thread_local CallRow* innermost_;
  CallRow* const outer_;
  std::vector<std::pair<StepPtr, uint32_t>> open_;
};

thread_local CallRow* CallRow::innermost_ = nullptr;

StepPtr begin_call(Step& caller, uint32_t i) {
  StepPtr step;
  Failure failure{.code = Errc::cancelled};
  if (!caller.stopped())
    failure = failure_of([&] {
      StepState& state = caller.state();
      const Program::Call& target = state.program.call_of(i);
      step = caller.executor().body_of(target).begin(caller.info());
      const uint32_t* in = state.program.inputs_of(state.node(i));
      for (const auto& [input, slot] : target.arguments)
        step->set_source(slot, state.values[in[input]]);
      step->link() = {&caller, i, caller.link().depth + 1, caller.link().root};
      if (target.has_async) caller.link().root->pending().add_call(step.get());
    });
  if (failure.code == Errc::ok) return step;
  auto arrival = std::make_unique<Arrival>();
  arrival->kind = Arrival::returned;
  arrival->node = i;
  arrival->code = failure.code;
  arrival->text = std::move(failure.text);
  if (caller.inbox().hand_in(std::move(arrival))) CallRow::of_this_thread().resume(&caller);
  return nullptr;
}

}  // namespace

bool own_with_calls(Step& root, bool may_use_lanes) {
  CallRow row;
  bool ended = root.run_until_blocked(may_use_lanes);  // then it may be another step already
  while (const StepPtr step = row.next()) {
    const bool done = step->run_until_blocked(may_use_lanes);
    if (step.get() == &root) ended = done;
  }
  return ended;
}

void call(Step& step, uint32_t i) {
  const Program& program = step.state().program;
  const Program::Call& target = program.call_of(i);
  if (step.link().depth >= target.depth_max) {
    const Node& function = program.graph->node(target.opener);
    return step.stop(Errc::invalid_argument,
                     detail::concat(program.place_of(i), ": more than ", target.depth_max,
                                    " calls, one inside the other, of the ", describe(function),
                                    "; does it always come to a branch that does not call it? If "
                                    "it does, raise FunctionOptions::depth_max"));
  }
  ++step.pending().outstanding;
  if (!target.has_async) step.lanes().call_begins();
  CallRow::of_this_thread().begin(&step, i);
}

void return_to_caller(Step& step) {
  PartitionExecutor& executor = step.executor();
  const Program& program = executor.program();
  executor.call_ended();
  CallLink& link = step.link();
  auto arrival = std::make_unique<Arrival>();
  arrival->kind = Arrival::returned;
  arrival->node = link.caller_node;
  arrival->code = step.result().code;
  if (arrival->code == Errc::ok)
    for (uint32_t slot : program.interface.results) arrival->outputs.push_back(step.value(slot));
  if (program.has_async) link.root->pending().remove_call(&step);
  const StepPtr caller = std::move(link.caller);
  link = {nullptr, kNone, 0, &step};
  executor.release(&step);
  if (caller->inbox().hand_in(std::move(arrival))) CallRow::of_this_thread().resume(caller);
}

// The reason of a call that was stopped is the reason of the whole step.
void returned(Step& step, Arrival& arrival) {
  StepState& state = step.state();
  const uint32_t i = arrival.node;
  const FiringNode& node = state.node(i);
  --step.pending().outstanding;
  if (!state.program.call_of(i).has_async) step.lanes().call_ends();
  if (arrival.code != Errc::ok) {
    if (!step.stopped()) step.stop(arrival.code, state.program.place_of(i) + ": " + arrival.text);
    return;
  }
  for (size_t k = 0; k < node.n_out; ++k) {
    const NodeView::Out& out = node.view()->outputs[k];
    if (!has_type(arrival.outputs[k], out.dtype, out.shape))
      return step.stop(Errc::invalid_argument,
                       detail::concat(state.program.place_of(i), ": the function gave back ",
                                      type_text(arrival.outputs[k]), " as result ", k,
                                      ", which was declared as ", out.dtype, out.shape,
                                      "; declare what it is, -1 for sizes that differ"));
    state.values[node.out + k] = std::move(arrival.outputs[k]);
  }
  state.settle_apart(i, false);
}

std::string calls_under_way(Step& step) {
  const int64_t depth = step.link().depth;
  if (depth == 0) return {};
  const Program& program = step.state().program;
  return detail::concat("; in ", program.graph->node(program.partition.function).name, ", ", depth,
                        depth == 1 ? " call deep" : " calls deep");
}

}  // namespace troupe
