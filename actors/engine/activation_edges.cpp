// Implements what comes to and goes from a step of actors/engine/activation.hpp: values sent and
// received, answers of async kernels, lanes and devices.
#include <algorithm>

#include "actors/engine/firing_jobs.hpp"
#include "devices/held.hpp"

namespace troupe {
namespace {

bool is_a(const Tensor& value, DType dtype, const Shape& shape) {
  return value.defined() && value.dtype() == dtype && shape.accepts(value.shape());
}

std::string described(const Tensor& value) {
  return value.defined() ? detail::concat(value.dtype(), value.shape()) : "nothing";
}

}  // namespace

void Activation::send(uint32_t i) {
  const Program::Send& out = stage_.program_.edges.sends[stage_.program_.nodes.roles[i]];
  Stage::SendPort& port = stage_.ports_[stage_.program_.nodes.roles[i]];
  Deliver message;
  message.key = {stage_.session_, stage_.executable_, info_.run, 0, 0, out.edge};
  if (out.loop != kNone) {
    message.key.frame = stage_.program_.loops[out.loop].opener + 1;
    message.key.iteration = loops_[out.loop].iteration;
  }
  const bool dead = missing_[i] & kDeadBit;
  message.dead = dead;
  const Tensor* value = out.control || dead ? nullptr : &values_[out.slot];
  const int64_t bytes = value ? value->byte_size() : 0;
  const int64_t wall = trace_begin();
  port.transfers.fetch_add(1, std::memory_order_relaxed);
  port.bytes.fetch_add(bytes, std::memory_order_relaxed);
  if (!value || stage_.host_.device->on_host()) {
    if (value) message.value = *value;
    caf::anon_send(port.receiver, std::move(message));
    if (wall) stage_.trace("send", i, wall, info_.run, bytes);
    if (!dead) settle_arrived(i, false);
    return;
  }
  // The value is in memory that the host cannot read: copy it first. The node settles when the copy
  // is there.
  stage_.host_.device->copy_to_host(
      *value, [step = ActivationPtr{this}, i, &port, wall, bytes, message = std::move(message)](
                  Errc code, std::string text, Tensor copy) mutable {
        auto arrival = std::make_unique<Arrival>();
        arrival->kind = Arrival::async;
        arrival->node = i;
        arrival->code = code;
        arrival->text = std::move(text);
        if (code == Errc::ok) {
          message.value = std::move(copy);
          caf::anon_send(port.receiver, std::move(message));
          if (wall) step->stage_.trace("copy", i, wall, step->info_.run, bytes);
        }
        step->post(std::move(arrival));
      });
  ++outstanding_;  // not before: what throws is fired again. Answers wait in the inbox.
}

void Activation::handle(Arrival& arrival) {
  switch (arrival.kind) {
    case Arrival::wake:
      return;
    case Arrival::fence:
      --outstanding_;
      if (arrival.code != Errc::ok) stop(arrival.code, arrival.text);
      return;
    case Arrival::returned:
      return returned(arrival);
    case Arrival::deliver:
      received(arrival);
      return;
    case Arrival::async:
    case Arrival::job:
      answered(arrival);
      return;
  }
}

// A value of an edge, or the word that there will be none.
void Activation::received(Arrival& arrival) {
  const size_t index = stage_.program_.receive_of(arrival.edge);
  if (stage_.program_.edges.receives[index].loop != kNone && comes_early(index, arrival)) return;
  if (received_[index]) return;  // the sender repeated itself
  received_[index] = true;
  {
    std::lock_guard lock(mutex_);
    awaited_edges_[index] = false;
  }
  const uint32_t i = stage_.program_.edges.receives[index].node;
  Tensor& value = arrival.outputs[0];
  if (armed_ns_)
    stage_.trace("receive", i, armed_ns_, info_.run, value.defined() ? value.byte_size() : 0);
  const Edge& edge = *stage_.program_.edges.receives[index].edge;
  if (arrival.code == Errc::ok && !arrival.dead && !edge.control &&
      !is_a(value, edge.dtype, edge.shape)) {  // kernels trust what the graph says
    arrival.code = Errc::bad_data;
    arrival.text = detail::concat(stage_.program_.place_of(i), ": what came is ", described(value),
                                  ", but the edge carries ", edge.dtype, edge.shape,
                                  "; is the sender another version?");
  }
  if (arrival.code != Errc::ok) {
    --outstanding_;
    stop(arrival.code, arrival.text);
  } else if (value.defined() && !arrival.dead && !stage_.host_.device->on_host()) {
    copy_in(i, value);
  } else {
    --outstanding_;
    if (stage_.program_.nodes.firing[i].n_out)
      values_[stage_.program_.nodes.firing[i].out] = std::move(value);
    if (arrival.dead) missing_[i] |= kDeadBit;
    if (!arrival.dead && stage_.program_.nodes.roles[i] != kNone)
      release_variables(stage_.program_.nodes.roles[i]);
    settle_arrived(i, arrival.dead);
  }
}

// To memory that the host cannot write. The node settles when the copy is there.
void Activation::copy_in(uint32_t i, const Tensor& value) {
  const Failure started = failure_of([&] {
    stage_.host_.device->copy_from_host(
        value, [step = ActivationPtr{this}, i](Errc code, std::string text, Tensor copy) {
          auto done = std::make_unique<Arrival>();
          done->kind = Arrival::async;
          done->node = i;
          done->code = code;
          done->text = std::move(text);
          done->outputs.push_back(std::move(copy));
          step->post(std::move(done));
        });
  });
  if (started.code == Errc::ok) return;  // still outstanding
  --outstanding_;
  stop(started.code, stage_.program_.place_of(i) + ": " + started.text);
}

// What a call of a function gives back. Of one that was stopped the whole step has been.
void Activation::returned(Arrival& arrival) {
  const uint32_t i = arrival.node;
  const FiringNode& node = stage_.program_.nodes.firing[i];
  --outstanding_;
  if (!stage_.program_.call_of(i).has_async) --calls_;
  if (arrival.code != Errc::ok) {
    if (!stopped()) stop(arrival.code, stage_.program_.place_of(i) + ": " + arrival.text);
    return;
  }
  for (size_t k = 0; k < node.n_out; ++k) {
    const NodeView::Out& out = node.view->outputs[k];
    if (!is_a(arrival.outputs[k], out.dtype, out.shape))
      return stop(Errc::invalid_argument,
                  detail::concat(stage_.program_.place_of(i), ": the function gave back ",
                                 described(arrival.outputs[k]), " as result ", k,
                                 ", which was declared as ", out.dtype, out.shape,
                                 "; declare what it is, -1 for sizes that differ"));
    values_[node.out + k] = std::move(arrival.outputs[k]);
  }
  settle_arrived(i, false);
}

// What an async kernel, a lane or a copy was asked for.
void Activation::answered(Arrival& arrival) {
  const uint32_t i = arrival.node;
  const FiringNode& node = stage_.program_.nodes.firing[i];
  --outstanding_;
  if (arrival.kind == Arrival::job) {
    --jobs_;
    off_lane(i);
    if (arrival.code == Errc::ok) {
      if (!put_off_.empty()) try_one_again();
      settle_arrived(i, false);
    } else {
      kernel_failed(i, arrival.code, arrival.text);
    }
    return;
  }
  // The owner alone changes what waits, under the lock, so it may look without.
  if (const auto waited = async_.find(i); waited != async_.end()) {
    std::lock_guard lock(mutex_);
    async_.erase(waited);
  }
  if (arrival.code != Errc::ok)
    return stop(arrival.code, stage_.program_.place_of(i) + ": " + arrival.text);
  for (size_t k = 0; k < node.n_out; ++k) {
    if (k >= arrival.outputs.size() || !arrival.outputs[k].defined())
      return stop(Errc::kernel_failed,
                  detail::concat(stage_.program_.place_of(i), " finished without output ", k,
                                 "; its kernel must hand all of them to done()"));
    const NodeView::Out* out = node.view ? &node.view->outputs[k] : nullptr;  // null: a copy
    if (out && !is_a(arrival.outputs[k], out->dtype, out->shape))
      return stop(Errc::kernel_failed,
                  detail::concat(stage_.program_.place_of(i), " finished with ",
                                 described(arrival.outputs[k]), " as output ", k,
                                 ", which is to be ", out->dtype, out->shape));
    Tensor& value = values_[node.out + k] = std::move(arrival.outputs[k]);
    if (node.view && value.byte_size() > Memory::kMarkedAbove) {
      const Node& from = *node.view->node;
      const bool stays = from.op->stateful && from.inputs.empty();
      mark(stage_.host_.device->memory(), value.buffer(), value.byte_size(),
           {node.view, static_cast<int>(k), stays ? kBetweenSteps : info_.run});
    }
  }
  settle_arrived(i, false);
}

}  // namespace troupe
