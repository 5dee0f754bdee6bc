// Values and answers that leave a step and come back to it. A thread of a device or another actor
// answers by an arrival in the step's inbox.
#include "actors/engine/step_edges.hpp"

#include <utility>
#include <vector>

#include "actors/engine/executor.hpp"
#include "actors/engine/firing_jobs.hpp"
#include "actors/engine/firing_trace.hpp"
#include "actors/engine/step_calls.hpp"
#include "actors/engine/value_type.hpp"
#include "devices/failure.hpp"
#include "devices/held.hpp"
#include "graph/base/buffer.hpp"

namespace troupe {
namespace {

std::unique_ptr<Arrival> make_arrival(Arrival::Kind kind, uint32_t node, Errc code,
                                      std::string text) {
  auto arrival = std::make_unique<Arrival>();
  arrival->kind = kind;
  arrival->node = node;
  arrival->code = code;
  arrival->text = std::move(text);
  return arrival;
}

// Copies a value to memory that the host cannot write. The node settles when the copy is there.
void copy_in(Step& step, uint32_t i, const Tensor& value) {
  const Failure started = failure_of([&] {
    step.executor().host().device->copy_from_host(
        value, [step = StepPtr{&step}, i](Errc code, std::string text, Tensor copy) {
          auto done = make_arrival(Arrival::async, i, code, std::move(text));
          done->outputs.push_back(std::move(copy));
          step->post(std::move(done));
        });
  });
  if (started.code == Errc::ok) return;  // still outstanding
  --step.pending().outstanding;
  step.stop(started.code, step.state().program.place_of(i) + ": " + started.text);
}

void job_ended(Step& step, Arrival& arrival) {
  const uint32_t i = arrival.node;
  LaneAdmission& lanes = step.lanes();
  lanes.job_ended(i);
  if (arrival.code != Errc::ok) {
    step.kernel_failed(i, arrival.code, arrival.text);
    return;
  }
  // The put-off node goes below the nodes that are ready by now: these may make room.
  if (lanes.has_put_off()) step.state().make_ready(lanes.take_put_off());
  step.state().settle_apart(i, false);
}

// An async kernel has answered, or a copy is there.
void answered(Step& step, Arrival& arrival) {
  StepState& state = step.state();
  const Program& program = state.program;
  const uint32_t i = arrival.node;
  const FiringNode& node = state.node(i);
  const NodeView* code = node.view();
  --step.pending().outstanding;
  step.pending().async_answered(i);
  if (arrival.code != Errc::ok)
    return step.stop(arrival.code, program.place_of(i) + ": " + arrival.text);
  for (size_t k = 0; k < node.n_out; ++k) {
    if (k >= arrival.outputs.size() || !arrival.outputs[k].defined())
      return step.stop(Errc::kernel_failed,
                       detail::concat(program.place_of(i), " finished without output ", k,
                                      "; its kernel must hand all of them to done()"));
    const NodeView::Out* out = code ? &code->outputs[k] : nullptr;  // null: a copy
    if (out && !has_type(arrival.outputs[k], out->dtype, out->shape))
      return step.stop(
          Errc::kernel_failed,
          detail::concat(program.place_of(i), " finished with ", type_text(arrival.outputs[k]),
                         " as output ", k, ", which is to be ", out->dtype, out->shape));
    Tensor& value = state.values[node.out + k] = std::move(arrival.outputs[k]);
    if (code && value.byte_size() > Memory::kMarkedAbove) {
      const Node& from = *code->node;
      const bool stays = from.op->stateful && from.inputs.empty();
      mark(state.device_memory, buffer_of(value), value.byte_size(),
           {code, static_cast<int>(k), stays ? kBetweenSteps : state.info.run});
    }
  }
  state.settle_apart(i, false);
}

}  // namespace

void send(Step& step, uint32_t i) {
  StepState& state = step.state();
  PartitionExecutor& executor = step.executor();
  const Program::Send& out = state.program.edges.sends[state.program.nodes.roles[i]];
  SendPort& port = executor.port(state.program.nodes.roles[i]);
  Deliver message;
  message.key = executor.key_of(state.info.run, out.edge);
  if (out.loop != kNone) {
    message.key.frame = state.program.loops[out.loop].opener + 1;
    message.key.iteration = step.loops().iteration(out.loop);
  }
  const bool dead = state.is_dead(i);
  message.dead = dead;
  const Tensor* value = out.control || dead ? nullptr : &state.values[out.slot];
  const int64_t bytes = value ? value->byte_size() : 0;
  const int64_t wall = state.trace_begin();
  port.transfers.fetch_add(1, std::memory_order_relaxed);
  port.bytes.fetch_add(bytes, std::memory_order_relaxed);
  if (!value || state.program.on_host) {
    if (value) message.value = *value;
    caf::anon_send(port.receiver, std::move(message));
    if (wall) trace(executor, "send", i, wall, state.info.run, bytes);
    if (!dead) state.settle_apart(i, false);
    return;
  }
  // The value is in memory that the host cannot read, so it is copied first. The node settles when
  // the copy is there.
  executor.host().device->copy_to_host(
      *value, [step = StepPtr{&step}, i, &port, wall, bytes, message = std::move(message)](
                  Errc code, std::string text, Tensor copy) mutable {
        auto arrival = make_arrival(Arrival::async, i, code, std::move(text));
        if (code == Errc::ok) {
          message.value = std::move(copy);
          caf::anon_send(port.receiver, std::move(message));
          if (wall) trace(step->executor(), "copy", i, wall, step->info().run, bytes);
        }
        step->post(std::move(arrival));
      });
  ++step.pending().outstanding;  // not before: a Send that throws fires again
}

void start_async(Step& step, uint32_t i) {
  StepState& state = step.state();
  const FiringNode& node = state.node(i);
  const NodeView& view = *node.view();
  const uint32_t* in = state.program.inputs_of(node);
  std::vector<Tensor> inputs;
  inputs.reserve(node.n_in);
  for (uint32_t p = 0; p < node.n_in; ++p) inputs.push_back(state.values[in[p]]);
  auto firing = std::make_shared<AsyncFiring>(StepPtr{&step}, i, view.node, std::move(inputs));
  ++step.pending().outstanding;
  const Failure started = failure_of([&] { view.kernel->start(firing); });
  if (started.code != Errc::ok) firing->fail(started.code, started.text);
  // A firing that has been answered is neither given up nor asked for.
  if (firing->waits()) step.pending().add_async(i, std::move(firing));
}

void copy_count(Step& step, size_t loop) {
  const uint32_t driver = step.state().program.loops[loop].driver;
  step.executor().host().device->copy_from_host(
      step.loops().count(loop),
      [step = StepPtr{&step}, driver, outputs = step.loops().outputs(loop)](
          Errc code, std::string text, Tensor copy) mutable {
        auto done = make_arrival(Arrival::async, driver, code, std::move(text));
        done->outputs = std::move(outputs);
        done->outputs.push_back(std::move(copy));
        step->post(std::move(done));
      });
  step.loops().drop_variables(loop);
  ++step.pending().outstanding;
}

void fence(Step& step) {
  const Failure started = failure_of([&] {
    step.executor().host().device->fence(
        [step = StepPtr{&step}](Errc code, std::string text, Tensor) {
          step->post(make_arrival(Arrival::fence, 0, code, std::move(text)));
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
      if (arrival.code != Errc::ok) step.stop(arrival.code, arrival.text);
      return;
    case Arrival::returned:
      return returned(step, arrival);
    case Arrival::deliver:
      return receive(step, arrival);
    case Arrival::async:
      return answered(step, arrival);
    case Arrival::job:
      return job_ended(step, arrival);
  }
}

void receive(Step& step, Arrival& arrival) {
  StepState& state = step.state();
  const Program& program = state.program;
  const size_t index = program.receive_of(arrival.edge);
  const Program::Receive& from = program.edges.receives[index];
  if (from.loop != kNone) {
    StepResult failure;
    const bool taken = step.loops().takes(index, arrival, failure);
    if (failure.code != Errc::ok) step.stop(failure.code, std::move(failure.text));
    if (taken) return;
  }
  if (!step.pending().receive(index)) return;
  const uint32_t i = from.node;
  Tensor& value = arrival.outputs[0];
  if (state.traced_ns)
    trace(step.executor(), "receive", i, state.traced_ns, state.info.run,
          value.defined() ? value.byte_size() : 0);
  const Edge& edge = *from.edge;
  if (arrival.code == Errc::ok && !arrival.dead && !edge.control &&
      !has_type(value, edge.dtype, edge.shape)) {  // kernels trust what the graph says
    arrival.code = Errc::bad_data;
    arrival.text = detail::concat(program.place_of(i), ": what came is ", type_text(value),
                                  ", but the edge carries ", edge.dtype, edge.shape,
                                  "; is the sender another version?");
  }
  if (arrival.code == Errc::ok && value.defined() && !arrival.dead && !program.on_host)
    return copy_in(step, i, value);
  --step.pending().outstanding;
  if (arrival.code != Errc::ok) return step.stop(arrival.code, arrival.text);
  const FiringNode& node = state.node(i);
  if (node.n_out) state.values[node.out] = std::move(value);
  if (arrival.dead) state.missing[i] |= kDeadBit;
  if (const uint32_t loop = program.nodes.roles[i]; !arrival.dead && loop != kNone)
    step.loops().release_variables(loop);
  state.settle_apart(i, arrival.dead);
}

}  // namespace troupe
