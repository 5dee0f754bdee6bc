// Messages of the data plane: the frequent messages and the messages with tensors. Inside a process
// they are ordinary CAF messages. To another process they travel through a proxy actor (mesh.hpp)
// and net/wire/codec.hpp, never through CAF's serialisation. The control messages are in
// actors/async/messages.hpp. docs/protocol.md lists the sender and receiver of each.
//
// A message arrives at most once, in any order relative to the others. Each struct lists its fields
// once, in fields(); that list is the wire format, so a change of it requires a new
// kProtocolVersion (hello.hpp).
//
// Owner: its sender, then its receiver. Thread: any, one at a time.
#pragma once

#include <cstdint>
#include <string>
#include <type_traits>
#include <variant>

#include <caf/allowed_unsafe_message_type.hpp>

#include "troupe/error.hpp"
#include "troupe/tensor.hpp"

namespace troupe {

// Names one value of one running step.
struct Key {
  uint64_t session = 0;
  uint32_t executable = 0;
  int64_t run = 0;
  int32_t frame = 0;
  int64_t iteration = 0;
  int32_t edge = 0;
  friend bool operator==(const Key&, const Key&) = default;
};

// executor -> receiving op actor: one value of one edge. `error` other than ok: the value will
// never come, for that reason.
struct Deliver {
  Key key;
  bool dead = false;
  Errc error = Errc::ok;
  std::string text;
  Tensor value;  // undefined for a control edge, a dead value or an error
};

// master -> worker: run the worker's parts of an executable. Answered to the sender by FinishStep.
struct StartStep {
  uint64_t session = 0;
  uint32_t executable = 0;
  int64_t run = 0;
  int64_t step = 0;
  int64_t oldest = 0;       // oldest active run of the session; all runs before it have ended
  int64_t first_step = -1;  // RunContext::first_step
};

// worker -> master: the step has ended in all executors of the process. `run` -1: all runs that the
// process had.
struct FinishStep {
  uint64_t session = 0;
  uint32_t executable = 0;
  int64_t run = 0;
  std::string task;  // "/job:worker/task:1"
  Errc code = Errc::ok;
  std::string text;
  int64_t fired = 0;  // -1: the worker does not have the executable, or has dropped it
};

// master -> worker: end this run. Not answered itself; FinishStep reports the end.
struct CancelStep {
  uint64_t session = 0;
  uint32_t executable = 0;
  int64_t run = 0;
};

// worker -> shard: one replica's gradient of one parameter slice, or a write to its values.
// Answered by Acknowledged with the same ticket.
struct Push {
  uint32_t slice = 0;
  int32_t replica = 0;
  uint64_t incarnation = 0;
  int64_t step = 0;
  int64_t sequence = 0;  // per replica and slice
  uint64_t epoch = 0;
  uint64_t ticket = 0;  // chosen by the sender
  Tensor gradient;      // in the slice's layout, or rows of it (troupe/ops/parameters.hpp)
  int64_t first = -1;   // ParameterStep::first
  uint8_t write = 0;    // 0: a gradient; otherwise 1 + ParameterWrite::Kind
  int64_t number = 0;   // ParameterWrite::number
};

// shard -> worker: the push is applied and safe by the job's rule, or the reason why it never will
// be.
struct Acknowledged {
  uint64_t ticket = 0;
  uint32_t slice = 0;
  Errc code = Errc::ok;
  std::string text;
  int64_t version = 0;
};

// worker -> shard: asks for the values that training step `step` of a replica may read. Answered by
// Pulled with the same ticket.
struct Pull {
  uint32_t slice = 0;
  int32_t replica = 0;
  int64_t step = -1;          // -1: the newest values, at once
  int64_t have_version = -1;  // if the answer would hold this version, it carries no values
  uint64_t epoch = 0;
  uint64_t ticket = 0;
  int64_t first = -1;    // ParameterStep::first
  int64_t row_size = 0;  // in elements; set if `rows` is
  Tensor rows;           // rows of the slice, i64 [n]: send only these. Undefined: all
};

// shard -> worker: the answer to a Pull.
struct Pulled {
  uint64_t ticket = 0;
  uint32_t slice = 0;
  Errc code = Errc::ok;
  std::string text;
  int64_t version = 0;
  Tensor values;  // [n], or [rows, row_size]; undefined: the worker has them already
};

using PlaneMessage =
    std::variant<Deliver, StartStep, FinishStep, CancelStep, Push, Acknowledged, Pull, Pulled>;

// Calls `visit` with all fields in wire order. M may be const.
template <class V, class M>
requires std::is_same_v<std::remove_const_t<M>, Deliver>
void fields(V&& visit, M& m) {
  auto& k = m.key;
  visit(k.session, k.executable, k.run, k.frame, k.iteration, k.edge, m.dead, m.error, m.text,
        m.value);
}
template <class V, class M>
requires std::is_same_v<std::remove_const_t<M>, StartStep>
void fields(V&& visit, M& m) {
  visit(m.session, m.executable, m.run, m.step, m.oldest, m.first_step);
}
template <class V, class M>
requires std::is_same_v<std::remove_const_t<M>, FinishStep>
void fields(V&& visit, M& m) {
  visit(m.session, m.executable, m.run, m.task, m.code, m.text, m.fired);
}
template <class V, class M>
requires std::is_same_v<std::remove_const_t<M>, CancelStep>
void fields(V&& visit, M& m) { visit(m.session, m.executable, m.run); }
template <class V, class M>
requires std::is_same_v<std::remove_const_t<M>, Push>
void fields(V&& visit, M& m) {
  visit(m.slice, m.replica, m.incarnation, m.step, m.sequence, m.epoch, m.ticket, m.gradient,
        m.first, m.write, m.number);
}
template <class V, class M>
requires std::is_same_v<std::remove_const_t<M>, Acknowledged>
void fields(V&& visit, M& m) { visit(m.ticket, m.slice, m.code, m.text, m.version); }
template <class V, class M>
requires std::is_same_v<std::remove_const_t<M>, Pull>
void fields(V&& visit, M& m) {
  visit(m.slice, m.replica, m.step, m.have_version, m.epoch, m.ticket, m.first, m.row_size, m.rows);
}
template <class V, class M>
requires std::is_same_v<std::remove_const_t<M>, Pulled>
void fields(V&& visit, M& m) { visit(m.ticket, m.slice, m.code, m.text, m.version, m.values); }

}  // namespace troupe

// CAF calls a type "unsafe" if CAF's own wire format does not know it.
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::Deliver)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::StartStep)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::FinishStep)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::CancelStep)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::Push)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::Acknowledged)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::Pull)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::Pulled)
