// The data messages of steps: between executors, and between a master and the workers. They are
// frequent or carry tensors, so they travel on the data plane (net/wire/message_kinds.hpp). The
// control messages are in actors/async/messages.hpp. docs/protocol.md lists the sender and receiver
// of each.
//
// A message arrives at most once, in any order relative to the others.
//
// Owner: its sender, then its receiver. Thread: any, one at a time.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "net/wire/message_kinds.hpp"

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
  uint64_t draws = 0;       // RunContext::draws
  uint64_t fence = 0;       // RunContext::fence
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
  bool not_installed = false;  // the agent does not have the executable, or has dropped it
};

// master -> worker: end this run. Not answered itself; FinishStep reports the end.
struct CancelStep {
  uint64_t session = 0;
  uint32_t executable = 0;
  int64_t run = 0;
};

template <class I>
auto inspect(I& f, Key& x) {
  return f(x.session, x.executable, x.run, x.frame, x.iteration, x.edge);
}
template <class I>
auto inspect(I& f, Deliver& x) {
  return f(x.key, x.dead, x.error, x.text, x.value);
}
template <class I>
auto inspect(I& f, StartStep& x) {
  return f(x.session, x.executable, x.run, x.step, x.oldest, x.first_step, x.draws, x.fence);
}
template <class I>
auto inspect(I& f, FinishStep& x) {
  return f(x.session, x.executable, x.run, x.task, x.code, x.text, x.not_installed);
}
template <class I>
auto inspect(I& f, CancelStep& x) {
  return f(x.session, x.executable, x.run);
}

Deliver failed_form_of(const Deliver& message, const Loss& loss);
inline std::string_view speaker_of(const FinishStep& message) { return message.task; }
FinishStep refusal_of(const StartStep& message, const Loss& loss);

void add_step_messages(MessageKinds& kinds);

}  // namespace troupe
