// Values and answers that leave a step and come back to it. A thread of a device or another actor
// answers by an arrival in the step's inbox.
#include "actors/engine/step_edges.hpp"

#include <optional>
#include <utility>
#include <vector>

#include "actors/engine/executor.hpp"
#include "actors/engine/firing_jobs.hpp"
#include "actors/engine/firing_trace.hpp"
#include "actors/engine/value_type.hpp"
#include "devices/failure.hpp"
#include "devices/held.hpp"
#include "graph/base/buffer.hpp"

namespace troupe {
namespace {

std::unique_ptr<Arrival> make_arrival(Arrival::Kind kind, Firing firing, Errc code,
                                      std::string text) {
  auto arrival = std::make_unique<Arrival>();
  arrival->kind = kind;
  arrival->firing = firing;
  arrival->code = code;
  arrival->text = std::move(text);
  return arrival;
}

void job_ended(Step& step, Arrival& arrival) {
  const Firing firing = arrival.firing;
  LaneAdmission& lanes = step.lanes();
  lanes.job_ended(firing);
  if (arrival.code != Errc::ok) {
    step.kernel_failed(firing, arrival.code, arrival.text);
    return;
  }
  // The put-off node goes below the nodes that are ready by now: these may make room.
  if (lanes.has_put_off()) {
    const Firing again = lanes.take_put_off();
    again.state->make_ready(again.node);
    step.go_on(*again.state);
  }
  firing.state->settle_apart(firing.node, false);
  step.go_on(*firing.state);
}

void device_failed(Step& step, Errc code, const std::string& text) {
  if (code == Errc::device_lost) step.executor().host().device->lose(text);
}

// An async kernel has answered, or a copy is there.
void answered(Step& step, Arrival& arrival) {
  const Firing firing = arrival.firing;
  StepState& state = *firing.state;
  const Program& program = state.program;
  const FiringNode& node = state.node(firing.node);
  const NodeView* code = node.view();
  --step.pending().outstanding;
  step.pending().async_answered(firing);
  if (arrival.code != Errc::ok) {
    device_failed(step, arrival.code, arrival.text);
    return step.stop_in(state, arrival.code, program.place_of(firing.node) + ": " + arrival.text);
  }
  for (size_t k = 0; k < node.n_out; ++k) {
    if (k >= arrival.outputs.size() || !arrival.outputs[k].defined())
      return step.stop_in(state, Errc::kernel_failed,
                          detail::concat(program.place_of(firing.node), " finished without output ",
                                         k, "; its kernel must hand all of them to done()"));
    const NodeView::Out* out = code ? &code->outputs[k] : nullptr;  // null: a copy
    if (out && !has_type(arrival.outputs[k], out->dtype, out->shape))
      return step.stop_in(state, Errc::kernel_failed,
                          detail::concat(program.place_of(firing.node), " finished with ",
                                         type_text(arrival.outputs[k]), " as output ", k,
                                         ", which is to be ", out->dtype, out->shape));
    Tensor& value = state.values[node.out + k] = std::move(arrival.outputs[k]);
    if (code && value.byte_size() > Memory::kMarkedAbove) {
      const Node& from = *code->node;
      const bool stays = from.op->stateful && from.inputs.empty();
      mark(state.context.device_memory, buffer_of(value), value.byte_size(),
           {code, static_cast<int>(k), stays ? kBetweenSteps : state.context.info.run});
    }
  }
  state.settle_apart(firing.node, false);
  step.go_on(state);
}

}  // namespace

void send(Step& step, Firing node) {
  StepState& state = *node.state;
  StepContext& context = state.context;
  const uint32_t i = node.node, number = state.program.nodes.roles[i];
  PartitionExecutor& executor = step.executor();
  const Program::Send& out = executor.program().edges.sends[number];
  SendPort& port = executor.port(number);
  Deliver message;
  message.key = executor.key_of(context.info.run, out.edge);
  if (out.loop != kNone) {
    message.key.frame = executor.program().loops[out.loop].opener + 1;
    message.key.iteration = step.loops().iteration(out.loop);
  }
  const bool dead = state.is_dead(i);
  message.dead = dead;
  const Tensor* value = out.control || dead ? nullptr : &state.values[out.slot];
  const int64_t bytes = value ? value->byte_size() : 0;
  const int64_t wall = context.trace_begin();
  port.transfers.fetch_add(1, std::memory_order_relaxed);
  port.bytes.fetch_add(bytes, std::memory_order_relaxed);
  if (!value || state.program.on_host) {
    if (value) message.value = *value;
    caf::anon_send(port.receiver, std::move(message));
    if (wall) trace(*state.executor, "send", i, wall, context.info.run, bytes);
    if (!dead) state.settle_apart(i, false);
    return;
  }
  // The value is in memory that the host cannot read, so it is copied first. The node settles when
  // the copy is there.
  executor.host().device->copy_to_host(
      *value, [step = StepPtr{&step}, node, &port, wall, bytes, message = std::move(message)](
                  Errc code, std::string text, Tensor copy) mutable {
        auto arrival = make_arrival(Arrival::async, node, code, std::move(text));
        if (code == Errc::ok) {
          message.value = std::move(copy);
          caf::anon_send(port.receiver, std::move(message));
          if (wall) trace(*node.state->executor, "copy", node.node, wall, step->info().run, bytes);
        }
        step->post(std::move(arrival));
      });
  ++step.pending().outstanding;  // not before: a Send that throws fires again
}

void start_async(Step& step, Firing node) {
  StepState& state = *node.state;
  const FiringNode& fired = state.node(node.node);
  const NodeView& view = *fired.view();
  const uint32_t* in = state.program.inputs_of(fired);
  std::vector<Tensor> inputs;
  inputs.reserve(fired.n_in);
  for (uint32_t p = 0; p < fired.n_in; ++p) inputs.push_back(state.values[in[p]]);
  auto firing = std::make_shared<AsyncFiring>(StepPtr{&step}, node, view.node, std::move(inputs));
  ++step.pending().outstanding;
  const Failure started = failure_of([&] { view.kernel->start(firing); });
  if (started.code != Errc::ok) firing->fail(started.code, started.text);
  // A firing that has been answered is neither given up nor asked for.
  if (firing->waits()) step.pending().add_async(node, std::move(firing));
}

void copy_in(Step& step, Firing node, std::vector<Tensor> outputs) {
  const Tensor value = std::move(outputs.back());
  outputs.pop_back();
  const Failure started = failure_of([&] {
    step.executor().host().device->copy_from_host(
        value, [step = StepPtr{&step}, node, outputs = std::move(outputs)](
                   Errc code, std::string text, Tensor copy) mutable {
          auto done = make_arrival(Arrival::async, node, code, std::move(text));
          done->outputs = std::move(outputs);
          done->outputs.push_back(std::move(copy));
          step->post(std::move(done));
        });
  });
  if (started.code == Errc::ok)
    ++step.pending().outstanding;
  else
    step.stop_in(*node.state, started.code,
                 node.state->program.place_of(node.node) + ": " + started.text);
}

void give_back(Step& step, Firing to, std::vector<Tensor> outputs) {
  StepState& state = *to.state;
  const FiringNode& node = state.node(to.node);
  step.go_on(state);
  if (node.kind == NodeKind::loop && node.n_out > 0 && !state.program.on_host)
    return copy_in(step, to, std::move(outputs));
  for (size_t k = 0; k < node.n_out; ++k) {
    if (node.kind == NodeKind::call) {
      const NodeView::Out& out = node.view()->outputs[k];
      if (!has_type(outputs[k], out.dtype, out.shape))
        return step.stop_in(
            state, Errc::invalid_argument,
            detail::concat(state.program.place_of(to.node), ": the function gave back ",
                           type_text(outputs[k]), " as result ", k, ", which was declared as ",
                           out.dtype, out.shape, "; declare what it is, -1 for sizes that differ"));
    }
    state.values[node.out + k] = std::move(outputs[k]);
  }
  state.settle_apart(to.node, false);
}

void launch(Step& step, Firing fired) {
  StepState& s = *fired.state;
  StepContext& context = s.context;
  const FiringNode& node = s.node(fired.node);
  const int64_t wall = context.trace_begin();
  s.bind(context, node, context.device_memory);
  std::optional<WorkCount> work;
  if (wall) work.emplace(context.call);
  step.executor().host().device->launch(context.call);
  if (work)
    trace_kernel(*s.executor, "launch", fired.node, wall, context.info.run, *work,
                 &s.values[node.out]);
  s.settle_apart(fired.node, false);
}

void fence(Step& step) {
  const Failure started = failure_of([&] {
    step.executor().host().device->fence(
        [step = StepPtr{&step}](Errc code, std::string text, Tensor) {
          step->post(make_arrival(Arrival::fence, {}, code, std::move(text)));
        });
  });
  if (started.code == Errc::ok)
    ++step.pending().outstanding;
  else
    step.stop(started.code, started.text);
}

void handle(Step& step, Arrival& arrival) {
  switch (arrival.kind) {
    case Arrival::wake:
      return;
    case Arrival::fence:
      --step.pending().outstanding;
      device_failed(step, arrival.code, arrival.text);
      if (arrival.code != Errc::ok) step.stop(arrival.code, arrival.text);
      return;
    case Arrival::deliver:
      return receive(step, arrival);
    case Arrival::async:
      return answered(step, arrival);
    case Arrival::job:
      return job_ended(step, arrival);
  }
}

void receive(Step& step, Arrival& arrival) {
  const Program& whole = step.executor().program();
  const size_t index = whole.receive_of(arrival.edge);
  const Program::Receive& from = whole.edges.receives[index];
  StepState* to = &step.state();
  if (from.loop != kNone) {
    StepResult failure;
    StepState* held = nullptr;
    to = step.loops().state_for(index, arrival, failure, held);
    if (held) step.go_on(*held);
    if (failure.code != Errc::ok) step.stop(failure.code, std::move(failure.text));
    if (!to) return;
  }
  if (!step.pending().receive(index)) return;
  StepState& state = *to;
  const Program& program = state.program;
  const uint32_t i = from.node;
  Tensor& value = arrival.outputs[0];
  if (const int64_t begun = state.context.traced_ns)
    trace(*state.executor, "receive", i, begun, state.context.info.run,
          value.defined() ? value.byte_size() : 0);
  const Edge& edge = *from.edge;
  if (arrival.code == Errc::ok && !arrival.dead && !edge.control &&
      !has_type(value, edge.dtype, edge.shape)) {  // kernels trust what the graph says
    arrival.code = Errc::bad_data;
    arrival.text = detail::concat(program.place_of(i), ": what came is ", type_text(value),
                                  ", but the edge carries ", edge.dtype, edge.shape,
                                  "; is the sender another version?");
  }
  --step.pending().outstanding;
  if (arrival.code == Errc::ok && value.defined() && !arrival.dead && !program.on_host)
    return copy_in(step, {&state, i}, {std::move(value)});
  if (arrival.code != Errc::ok) return step.stop(arrival.code, arrival.text);
  const FiringNode& node = state.node(i);
  if (node.n_out) state.values[node.out] = std::move(value);
  if (arrival.dead) state.missing[i] |= kDeadBit;
  if (!arrival.dead && program.nodes.roles[i] != kNone) state.loops->release_variables(state);
  state.settle_apart(i, arrival.dead);
  step.go_on(state);
}

}  // namespace troupe
