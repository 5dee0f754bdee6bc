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
#include "actors/engine/step_calls.hpp"
#include "actors/engine/step_edges.hpp"
#include "devices/run_context.hpp"
#include "devices/threads/burst.hpp"
#include "devices/threads/cores.hpp"

namespace troupe {

// The firing loop. It returns when nothing is ready, or when the step is to stop.
void Step::drain(bool may_use_lanes) {
  StepState& s = state_;
  const FiringNode* const nodes = s.program.nodes.firing.data();
  const std::atomic<bool>& stop = link_.root->pending_.stop_flag();
  Memory& own = s.memory();
  for (;;) {
    uint32_t i = s.next;
    s.next = kNone;
    if (i == kNone) {
      if (s.top == 0) return;
      i = s.ready[--s.top];
    }
    const FiringNode& node = nodes[i];
    __builtin_prefetch(&node + 16);
    s.now.store(i, std::memory_order_release);
    if (stop.load(std::memory_order_relaxed)) [[unlikely]]
      return;
    if (s.is_dead(i)) [[unlikely]] {
      fire_dead(i, node);
      continue;
    }
    if (node.kind != NodeKind::plain || s.observe ||
        (may_use_lanes && node.costly.load(std::memory_order_relaxed))) [[unlikely]] {
      if (node.kind >= NodeKind::branch) {
        fire_control(i, node);
        continue;
      }
      const Burst together;  // values that nodes in a row send away leave in one go
      uint32_t special = i;
      do fire_special(special, nodes[special], may_use_lanes);
      while (!stopped() && s.take_send(special));
      continue;
    }
    s.bind(node, node.leaves ? s.memory_of(i, node, own) : own).fire(s.call);
    s.settle(i, false);
  }
}

void Step::fire_special(uint32_t i, const FiringNode& node, bool may_use_lanes) {
  switch (node.kind) {
    case NodeKind::source:
      state_.settle_apart(i, false);
      return;
    case NodeKind::async:
      start_async(*this, i);
      return;
    case NodeKind::send:
      send(*this, i);
      return;
    case NodeKind::queued:
      launch(i, node);
      return;
    case NodeKind::plain:
      break;
    default:  // take_send() gives no others
      throw InternalError("the ", state_.program.place_of(i), " is of no kind that fires here");
  }
  if (may_use_lanes && node.costly.load(std::memory_order_relaxed))
    lanes_.admit(i);
  else
    fire_observed(i, node);
}

void Step::fire_control(uint32_t i, const FiringNode& node) {
  switch (node.kind) {
    case NodeKind::branch:
      return choose(state_, loops_, i);
    case NodeKind::merge:
      return merge(state_, i);
    case NodeKind::loop:
      loops_.begin(i);
      return take_early(state_.program.loop_of(i));
    case NodeKind::turn:
      return turn(i);
    case NodeKind::call:
      return call(*this, i);
    case NodeKind::save:
      return loops_.save(i);
    case NodeKind::restore:
      return loops_.restore(i);
    default:
      throw InternalError("the ", state_.program.place_of(i), " is of no kind that fires");
  }
}

// An input of the node is dead, and so is the node, unless it takes an input that is alive or only
// waits. Its readers are told.
void Step::fire_dead(uint32_t i, const FiringNode& node) {
  if (node.kind == NodeKind::merge) return merge(state_, i);
  if (node.kind == NodeKind::turn) return turn(i);
  if (node.kind == NodeKind::send) send(*this, i);
  state_.settle_apart(i, true);
}

void Step::fire_observed(uint32_t i, const FiringNode& node) {
  StepState& s = state_;
  const NodeView& code = s.bind(node, s.memory_of(i, node, s.memory()));
  std::optional<WorkCount> work;
  if (s.traced_ns) work.emplace(s.call);
  const int64_t wall = s.trace_begin();
  const int64_t begin = tick_ns();
  code.fire(s.call);
  const int64_t took = tick_ns() - begin;
  if (work) trace_kernel(executor_, "kernel", i, wall, s.info.run, *work, &s.values[node.out]);
  executor_.sampled(i, took);
  s.settle_apart(i, false);
}

void Step::launch(uint32_t i, const FiringNode& node) {
  StepState& s = state_;
  const int64_t wall = s.trace_begin();
  s.bind(node, s.device_memory);
  std::optional<WorkCount> work;
  if (wall) work.emplace(s.call);
  executor_.host().device->launch(s.call);
  if (work) trace_kernel(executor_, "launch", i, wall, s.info.run, *work, &s.values[node.out]);
  s.settle_apart(i, false);
}

void Step::turn(uint32_t i) {
  switch (loops_.turn(i)) {
    case LoopStates::Turn::iteration:
      return take_early(state_.program.loop_of(i));
    case LoopStates::Turn::counts:
      return copy_count(*this, state_.program.nodes.roles[i]);
    case LoopStates::Turn::waits:
    case LoopStates::Turn::ended:
      return;
  }
}

// An iteration has been armed; values that came early for it are there now.
void Step::take_early(const Program::Loop& loop) {
  lanes_.iteration_begins();
  for (size_t edge : loop.receives)
    if (std::optional<Arrival> early = loops_.take_early(edge)) receive(*this, *early);
}

// A kernel that refuses its inputs would refuse them again.
bool Step::kernel_failed(uint32_t i, Errc code, const std::string& said) {
  const Program& program = state_.program;
  const FiringNode& node = state_.node(i);
  const NodeView* view = node.view();
  const std::string text = view ? failed_in(*view->node, said) : said;
  const bool whole = state_.give_back(node);
  for (uint32_t k = 0; k < node.n_out; ++k) state_.values[node.out + k].reset();
  if (!whole || code == Errc::invalid_argument || code == Errc::bad_data) {
    stop(code == Errc::internal ? Errc::kernel_failed : code,
         detail::concat(program.place_of(i), ": ", text));
    return false;
  }
  if (code == Errc::out_of_memory) {
    if (state_.cache) state_.cache->flush();  // a lane asks the pool, which does not see the cache
    PartitionExecutor::free_idle(executor_.host().device);
    if (!stopped() && lanes_.put_off(i)) return true;
  }
  auto restarts =
      std::find_if(restarts_.begin(), restarts_.end(), [&](const auto& r) { return r.first == i; });
  if (restarts == restarts_.end()) restarts = restarts_.insert(restarts, {i, 0});
  if (++restarts->second <= kKernelRestartsMax) {
    executor_.kernel_runs_again(i, state_.info.run, restarts->second, text);
    state_.make_ready(i);
    return true;
  }
  stop(code == Errc::internal ? Errc::kernel_failed : code,
       detail::concat(program.place_of(i), " failed ", kKernelRestartsMax + 1, " times: ", text));
  return false;
}

bool Step::own(bool may_use_lanes) {
  return state_.program.in_calls ? own_with_calls(*this, may_use_lanes)
                                 : run_until_blocked(may_use_lanes);
}

bool Step::run_until_blocked(bool may_use_lanes) {
  const ExecutorHost& host = executor_.host();
  may_use_lanes = may_use_lanes && host.lanes > 1;
  Cores::Caller caller;
  for (;;) {
    inbox_.take_all([this](Arrival& arrival) { handle(*this, arrival); });
    for (;;) {
      const Failure fired = failure_of([&] { drain(may_use_lanes); });
      if (fired.code == Errc::ok) break;
      if (!kernel_failed(state_.now.load(std::memory_order_relaxed), fired.code, fired.text)) break;
    }
    if (stopped()) {  // lane jobs are waited for
      state_.drop_ready();
      lanes_.drop_all();
      pending_.abandon();
      loops_.abandon();
    }
    if (lanes_.waits()) lanes_.let_go();
    if (lanes_.jobs() == 0 && lanes_.has_put_off()) {
      if (const uint32_t alone = lanes_.fire_alone(); alone != kNone) {
        state_.make_ready(alone);
        continue;
      }
    }
    if (!lanes_.batch().empty() && host.cores) caller.take(*host.cores);
    std::unique_ptr<LaneJob> kept = hand_out();
    if (pending_.outstanding == 0 && lanes_.jobs() == 0 && !state_.has_ready()) {
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
      state_(executor.program(), executor.host().device->memory()),
      pending_(state_.program),
      lanes_(state_),
      loops_(state_, pending_) {
  link_.root = this;
}

Step::~Step() = default;

void Step::arm(const RunContext& info, bool registered, std::function<void(Step&)> on_end) {
  const Tracer* tracer = executor_.host().tracer;
  state_.arm(info, tracer && tracer->on() ? Tracer::now_ns() : 0);
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
  const Program& program = state_.program;
  const bool failed = result_.code != Errc::ok;
  if (!failed) {
    for (uint32_t slot : program.interface.kept) state_.values[slot].reset();
  } else {
    for (size_t slot = 0; slot < state_.values.size(); ++slot)
      if (!program.initial.values[slot].defined()) state_.values[slot].reset();
  }
  loops_.clear(failed);
  inbox_.clear();
}

void Step::stop(Errc code, std::string text) {
  link_.root->pending_.stop(code, std::move(text) + calls_under_way(*this));
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
  own(true);
  return awaiting_message;
}

void Step::finish() {
  if (link_.caller) {
    if (stopped()) result_.code = Errc::cancelled;
    return return_to_caller(*this);
  }
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
  const uint32_t now = state_.now.load(std::memory_order_acquire);
  if ((inbox_.has_owner() || out.empty()) && now != kNone)
    out.push_back(state_.program.nodes.names[now] + " (running)");
  return out;
}

}  // namespace troupe
