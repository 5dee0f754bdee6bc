// The heart of the engine: drain() takes ready nodes, fires their kernels, and settles what they
// leave behind. Around it is the life of a step: who owns it, how a kernel that throws runs again,
// how the step ends.
#include "actors/engine/step.hpp"

#include <algorithm>
#include <optional>

#include "actors/engine/control_flow.hpp"
#include "actors/engine/executor.hpp"
#include "actors/engine/firing_jobs.hpp"
#include "actors/engine/firing_trace.hpp"
#include "actors/engine/step_edges.hpp"
#include "devices/run_context.hpp"
#include "devices/threads/burst.hpp"
#include "devices/threads/cores.hpp"

namespace troupe {
namespace {

// An input of the node is dead, and so is the node, unless it takes an input that is alive. Its
// readers are told.
void fire_dead(Step& step, StepState& s, uint32_t i) {
  const NodeKind kind = s.node(i).kind;
  if (kind == NodeKind::merge) return merge(s, i);
  if (kind == NodeKind::send) send(step, {&s, i});
  s.settle_apart(i, true);
}

}  // namespace

// The firing loop. It returns when nothing is ready in the state, when another state goes first, or
// when the step is to stop.
void Step::drain(StepState& s, bool may_use_lanes) {
  const FiringNode* const nodes = s.program.nodes.firing.data();
  const std::atomic<bool>& stop = pending_.stop_flag();
  Memory& own = context_.memory();
  const bool asks_cost = may_use_lanes || lanes_.is_on_only_lane();
  for (;;) {
    uint32_t i = s.next;
    s.next = kNone;
    if (i == kNone) {
      if (s.top == 0) return;
      i = s.ready[--s.top];
    }
    const FiringNode& node = nodes[i];
    __builtin_prefetch(&node + 16);
    context_.now.store(&node, std::memory_order_release);
    if (stop.load(std::memory_order_relaxed)) [[unlikely]]
      return;
    if (s.is_dead(i) && node.kind != NodeKind::end) [[unlikely]] {
      fire_dead(*this, s, i);
      continue;
    }
    if (node.kind != NodeKind::plain || s.observe ||
        (asks_cost && node.costly.load(std::memory_order_relaxed))) [[unlikely]] {
      if (node.kind >= NodeKind::branch) {
        fire_control(s, i);
        if (row_.back() != &s) return;  // a child begins, or this one has ended
        continue;
      }
      const Burst together;  // values that nodes in a row send away leave in one go
      uint32_t special = i;
      do {
        context_.now.store(&nodes[special], std::memory_order_release);
        fire_special(s, special, may_use_lanes);
      } while (!stopped() && !lanes_.gives_way() && s.take_send(special));
      if (lanes_.gives_way()) return;
      continue;
    }
    s.bind(context_, node, node.leaves ? s.memory_of(i, node, own) : own).fire(context_.call);
    s.settle(i, false);
  }
}

// Fires all that is ready in any state.
void Step::drain_all(bool may_use_lanes) {
  while (!row_.empty() && !stopped() && !lanes_.gives_way()) {
    StepState& s = *row_.back();
    const Failure fired = failure_of([&] { drain(s, may_use_lanes); });
    if (fired.code != Errc::ok) {
      const auto i = context_.now.load(std::memory_order_relaxed) - s.program.nodes.firing.data();
      kernel_failed({&s, static_cast<uint32_t>(i)}, fired.code, fired.text);
    } else if (!row_.back()->has_ready()) {
      row_.back()->in_row = false;
      row_.pop_back();
    }
  }
}

void Step::go_on(StepState& state) {
  if (!std::exchange(state.in_row, true)) row_.push_back(&state);
}

void Step::fire_special(StepState& s, uint32_t i, bool may_use_lanes) {
  switch (s.node(i).kind) {
    case NodeKind::source:
      s.settle_apart(i, false);
      return;
    case NodeKind::async:
      start_async(*this, {&s, i});
      return;
    case NodeKind::send:
      send(*this, {&s, i});
      return;
    case NodeKind::queued:
      launch(*this, {&s, i});
      return;
    case NodeKind::plain:
      break;
    default:  // take_send() gives no others
      throw InternalError("the ", s.program.place_of(i), " is of no kind that fires here");
  }
  const bool costly = s.node(i).costly.load(std::memory_order_relaxed);
  if (costly && may_use_lanes) return lanes_.admit({&s, i});
  if (costly && lanes_.give_way()) return s.make_ready(i);
  fire_observed(s, i);
}

void Step::fire_control(StepState& s, uint32_t i) {
  switch (s.node(i).kind) {
    case NodeKind::branch:
      return choose(s, i);
    case NodeKind::merge:
      return merge(s, i);
    case NodeKind::loop: {
      StepState& body = s.loops->begin({&s, i});
      go_on(body);
      return iteration_begins(body);
    }
    case NodeKind::end:
      return end(s);
    case NodeKind::call:
      if (const std::string refused = calls_.open({&s, i}); !refused.empty())
        stop_in(s, Errc::invalid_argument, refused);
      return;
    case NodeKind::save:
      return s.loops->save({&s, i});
    case NodeKind::restore:
      return s.loops->restore({&s, i});
    default:
      throw InternalError("the ", s.program.place_of(i), " is of no kind that fires");
  }
}

void Step::fire_observed(StepState& s, uint32_t i) {
  const FiringNode& node = s.node(i);
  const NodeView& code = s.bind(context_, node, s.memory_of(i, node, context_.memory()));
  std::optional<WorkCount> work;
  if (context_.traced_ns) work.emplace(context_.call);
  const int64_t wall = context_.trace_begin();
  const int64_t begin = tick_ns();
  code.fire(context_.call);
  const int64_t took = tick_ns() - begin;
  if (work)
    trace_kernel(*s.executor, "kernel", i, wall, context_.info.run, *work, &s.values[node.out]);
  s.executor->sampled(i, took);
  s.settle_apart(i, false);
}

// The last node of an iteration or a call fires.
void Step::end(StepState& body) {
  const Firing node = body.site.firing;
  const auto leave_row = [this] {
    row_.back()->in_row = false;
    row_.pop_back();
  };
  if (body.program.is_function()) {
    std::erase_if(restarts_, [&](const auto& r) { return r.first.state == &body; });
    leave_row();
    return give_back(*this, node, calls_.end(body));
  }
  const LoopStates::Turn turn = body.loops->turn(body);
  if (turn == LoopStates::Turn::waits) return;
  if (turn == LoopStates::Turn::iteration) return iteration_begins(body);
  std::vector<Tensor> outputs = body.loops->end(body);
  leave_row();
  give_back(*this, node, std::move(outputs));
}

// An iteration has been armed; values that came early for it are there now.
void Step::iteration_begins(StepState& body) {
  lanes_.iteration_begins();
  for (size_t edge : body.loops->loop_of(body).receives)
    if (std::optional<Arrival> early = body.loops->take_early(edge)) receive(*this, *early);
}

void Step::begin_call() {
  const Firing call = calls_.newest();
  const Failure failure = failure_of([&] { go_on(calls_.begin(executor_)); });
  if (failure.code != Errc::ok)
    stop_in(*call.state, failure.code,
            call.state->program.place_of(call.node) + ": " + failure.text);
}

// A kernel that refuses its inputs would refuse them again, and a lost device does no work.
bool Step::kernel_failed(Firing failed, Errc code, const std::string& said) {
  StepState& s = *failed.state;
  const uint32_t i = failed.node;
  const FiringNode& node = s.node(i);
  const NodeView* view = node.view();
  const std::string text = view ? failed_in(*view->node, said) : said;
  const bool whole = s.give_back(node);
  for (uint32_t k = 0; k < node.n_out; ++k) s.values[node.out + k].reset();
  if (code == Errc::device_lost) executor_.host().device->lose(text);
  if (!whole || code == Errc::invalid_argument || code == Errc::bad_data ||
      code == Errc::device_lost) {
    stop_in(s, code == Errc::internal ? Errc::kernel_failed : code,
            detail::concat(s.program.place_of(i), ": ", text));
    return false;
  }
  if (code == Errc::out_of_memory) {
    if (context_.cache) context_.cache->flush();  // a lane asks the pool, not the cache
    PartitionExecutor::free_idle(executor_.host().device);
    if (!stopped() && lanes_.put_off(failed, calls_.has_open())) return true;
  }
  if (const int attempt = ++restarts_[failed]; attempt <= kKernelRestartsMax) {
    s.executor->kernel_runs_again(i, context_.info.run, attempt, text);
    s.make_ready(i);
    go_on(s);
    return true;
  }
  stop_in(
      s, code == Errc::internal ? Errc::kernel_failed : code,
      detail::concat(s.program.place_of(i), " failed ", kKernelRestartsMax + 1, " times: ", text));
  return false;
}

bool Step::own(bool may_use_lanes, bool yields) {
  const ExecutorHost& host = executor_.host();
  lanes_.on_only_lane(yields && host.lanes == 1 ? host.actors_waiting : nullptr);
  may_use_lanes = may_use_lanes && host.lanes > 1;
  Cores::Caller caller;
  for (;;) {
    inbox_.take_all([this](Arrival& arrival) { handle(*this, arrival); });
    drain_all(may_use_lanes);
    if (lanes_.take_gives_way() && !stopped()) {
      schedule();  // nothing may touch the step after this
      return false;
    }
    if (stopped()) abandon();
    if (lanes_.waits()) lanes_.let_go();
    if (lanes_.batch().empty() && calls_.has_open()) {
      begin_call();
      continue;
    }
    if (lanes_.jobs() == 0 && lanes_.has_put_off() && !calls_.has_open()) {
      const Firing alone = lanes_.fire_alone();
      alone.state->make_ready(alone.node);
      go_on(*alone.state);
      continue;
    }
    if (!lanes_.batch().empty() && host.cores) caller.take(*host.cores);
    std::unique_ptr<LaneJob> kept = hand_out();
    if (pending_.outstanding == 0 && lanes_.jobs() == 0 && row_.empty()) {
      if (!executor_.program().on_host && !std::exchange(fenced_, true)) {
        fence(*this);
        continue;
      }
      finish();  // nothing may touch the step after this
      return true;
    }
    if (inbox_.give_up()) {
      if (!kept) return false;
      const bool ours_again = kept->run();
      if (!ours_again) return false;
    } else if (kept) {
      host.system->scheduler().enqueue(kept.release());
    }
  }
}

// The step is to stop. Lane jobs are waited for.
void Step::abandon() {
  for (StepState* state : row_) {
    state->drop_ready();
    state->in_row = false;
  }
  row_.clear();
  calls_.drop_open();
  lanes_.drop_all();
  pending_.abandon();
  loops_.abandon();
}

// Gives the costly nodes that are ready to other lanes, but for one, which this thread runs itself.
std::unique_ptr<LaneJob> Step::hand_out() {
  std::vector<LaneAdmission::Job>& batch = lanes_.batch();
  if (batch.empty()) return nullptr;
  auto kept = std::make_unique<LaneJob>(StepPtr{this}, batch.back());
  batch.pop_back();
  for (const LaneAdmission::Job& job : batch)
    executor_.host().system->scheduler().enqueue(new LaneJob(StepPtr{this}, job));  // takes it over
  batch.clear();
  return kept;
}

Step::Step(PartitionExecutor& executor)
    : executor_(executor),
      context_(executor.host().device->memory(), executor.program().on_host),
      state_(executor.program(), context_, &executor, &loops_),
      pending_(state_.program),
      lanes_(state_.program),
      loops_(state_, pending_),
      calls_(pending_) {}

Step::~Step() = default;

void Step::arm(const RunContext& info, bool registered, std::function<void(Step&)> on_end) {
  const Tracer* tracer = executor_.host().tracer;
  context_.arm(info, tracer && tracer->on() ? Tracer::now_ns() : 0);
  const bool timed = context_.armed % kSampleEvery == 2 && state_.program.many_lanes;
  state_.arm(timed || context_.traced_ns);
  row_.clear();
  go_on(state_);
  lanes_.arm();
  loops_.arm();
  pending_.arm(registered);
  parking_.arm();
  inbox_.clear();
  restarts_.clear();
  fenced_ = false;
  registered_ = registered;
  result_ = {};
  on_end_ = std::move(on_end);
}

void Step::schedule() {
  ref();  // the scheduler drops it after resume()
  executor_.host().system->scheduler().enqueue(this);
}

// The values of a step that failed are where they were, so all go.
void Step::clear() {
  const bool failed = result_.code != Errc::ok;
  if (failed)
    state_.clear();
  else
    for (uint32_t slot : state_.program.interface.kept) state_.values[slot].reset();
  loops_.clear(failed);
  calls_.clear();
  inbox_.clear();
}

void Step::stop(Errc code, std::string text) { pending_.stop(code, std::move(text)); }

void Step::stop_in(const StepState& where, Errc code, const std::string& text) {
  stop(code, text + calls_around(where));
}

void Step::interrupt(Errc code, std::string text) {
  stop(code, std::move(text));
  post(std::make_unique<Arrival>());
}

void Step::post(std::unique_ptr<Arrival> arrival) {
  if (!inbox_.hand_in(std::move(arrival))) return;
  // The step is ours now. It goes on once the other things that came with this are handed in, too.
  Burst::put_off(this, [step = StepPtr{this}] {
    if (!step->parking_.give()) step->schedule();
  });
}

bool Step::wait(std::chrono::steady_clock::time_point deadline) {
  for (;;) {
    const Parking::Woken woken = parking_.sleep(deadline);
    if (woken != Parking::Woken::given) return woken == Parking::Woken::ended;
    own(true);
  }
}

caf::resumable::resume_result Step::resume(caf::execution_unit*, size_t) {
  own(true, true);
  return awaiting_message;
}

void Step::finish() {
  executor_.ended(*this, registered_);
  if (pending_.stopped()) {
    result_ = pending_.stop_reason();
    result_.text += loops_.under_way();
  } else {
    for (uint32_t slot : state_.program.interface.kept)
      if (!state_.values[slot].defined())
        result_ = {Errc::invalid_argument, state_.program.no_value(slot)};
  }
  const auto on_end = std::exchange(on_end_, nullptr);
  if (!on_end) return parking_.end();
  parking_.end_alone();
  on_end(*this);
}

std::vector<std::string> Step::waiting_for() {
  std::vector<std::string> out = pending_.waiting_for();
  const FiringNode* const now = context_.now.load(std::memory_order_acquire);
  if ((inbox_.has_owner() || out.empty()) && now)
    out.push_back(executor_.name_of(now) + " (running)");
  return out;
}

}  // namespace troupe
