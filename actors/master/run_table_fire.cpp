// The part of RunTable on a caller's thread, which runs a call with a single local executor itself.
//
// Most of the cost of a short run is memory that other threads write, too: locks, counts, lists. So
// each thread has a seat with the calls it ran last; the step state that its executor keeps for it,
// the numbers of its runs and the gate (gate.hpp) are separate as well. Other threads take the
// seat's lock only briefly: in tick(), under_way() and to cancel.
#include <algorithm>
#include <future>
#include <set>

#include "actors/async/deadline.hpp"
#include "actors/master/gate.hpp"
#include "actors/async/joined.hpp"
#include "actors/master/run_table.hpp"
#include "devices/failure.hpp"

namespace troupe {
namespace {

std::string late(Step& step, std::chrono::milliseconds timeout) {
  return detail::concat("the step did not end within ", timeout.count(), " ms; it waits for ",
                        joined(step.waiting_for()), "; give it more time with RunOptions::timeout");
}

// Fires an armed step on this thread until it has ended.
void fire_here(Step& step, std::chrono::milliseconds timeout) {
  if (step.own(true) || step.wait(deadline_after(timeout))) return;
  step.interrupt(Errc::timeout, late(step, timeout));
  step.wait(std::chrono::steady_clock::time_point::max());
}

void feed(const LiveCall& call, const std::vector<Tensor>& feeds, Step& step) {
  for (size_t i = 0; i < feeds.size(); ++i)
    if (call.feed_slots[i] != kNone) step.set_source(call.feed_slots[i], feeds[i]);
}

RunResult result_of(const LiveCall& call, const Step& step) {
  RunResult result{step.result().code, step.result().text, {}};
  if (result.code != Errc::ok) return result;
  result.values.reserve(call.fetch_slots.size());
  for (uint32_t slot : call.fetch_slots)
    result.values.push_back(slot == kNone ? Tensor{} : step.value(slot));
  return result;
}

}  // namespace

RunTable::~RunTable() {
  for (auto& seat : seats_) delete seat.load(std::memory_order_acquire);
}

void RunTable::check_feeds(const PreparedCall& call, const std::vector<Tensor>& feeds) {
  if (feeds.size() != call.feeds.size())
    throw Error(Errc::invalid_argument, "the call wants ", call.feeds.size(), " feeds, got ",
                feeds.size(), "; give one tensor for each, in the order of prepare()");
  for (size_t i = 0; i < feeds.size(); ++i) {
    const Output& o = call.feeds[i];
    const Node& node = call.graph->node(o.node);
    if (!feeds[i].defined() || feeds[i].dtype() != o.dtype() ||
        !o.shape().accepts(feeds[i].shape()))
      throw Error(
          Errc::invalid_argument, "feed ", node.name, ":", o.index, " (made at ", node.file, ":",
          node.line, ") wants ", o.dtype(), o.shape(), ", got ",
          feeds[i].defined() ? detail::concat(feeds[i].dtype(), feeds[i].shape()) : "nothing");
    if (!feeds[i].on_host())
      throw Error(Errc::invalid_argument, "feed ", node.name, ":", o.index,
                  " is not in host memory; feed a host tensor");
  }
}

void RunTable::Fired::interrupt(Errc code, const std::string& text) {
  std::lock_guard lock(mutex);
  if (step)
    step->interrupt(code, text);
  else if (stopped.code == Errc::ok)
    stopped = {code, text};
}

// A short step takes less time than reading a clock, so its beginning is not timed: its time counts
// from the first tick that sees it.
std::optional<Stall> RunTable::Fired::look(Time now, const std::string& task) {
  std::lock_guard lock(mutex);
  if (!step) return std::nullopt;
  if (!seen) seen = now;
  if (now >= deadline_after(*seen, timeout))  // a loop that never yields to its caller
    step->interrupt(Errc::timeout, late(*step, timeout));
  if (reported) return std::nullopt;
  if (now - *seen < kStallReport) return std::nullopt;
  reported = true;
  return now_at(now, task);
}

Stall RunTable::Fired::now_at(Time now, const std::string& task) const {
  return {step->info().run,
          step->executor().executable(),
          seen ? std::chrono::duration<double>(now - *seen).count() : 0,
          {task},
          step->waiting_for()};
}

class RunTable::Firing {
 public:
  Firing(RunTable& runs, int64_t call, const RunOptions& options)
      : runs_(runs), fired_(std::make_shared<Fired>()) {
    fired_->timeout = options.timeout;
    if (Cancellation* cancel = options.cancel) {
      watching_ =
          cancel->watch([fired = fired_] { fired->interrupt(Errc::cancelled, kTakenBack); });
      if (!watching_) fired_->interrupt(Errc::cancelled, kTakenBack);
    }
    std::lock_guard lock(runs_.mutex_);
    if (runs_.stopped_) fired_->interrupt(Errc::cancelled, kSessionClosed);
    fired_->call = call;
    fired_->run = runs_.next_run_++;
    at_ = runs_.fired_.insert(runs_.fired_.end(), fired_.get());
  }
  ~Firing() {
    std::lock_guard lock(runs_.mutex_);
    runs_.fired_.erase(at_);
  }
  Firing(const Firing&) = delete;
  int64_t run() const { return fired_->run; }
  void begin(Step& step) {
    std::lock_guard lock(fired_->mutex);
    fired_->step = &step;
    if (fired_->stopped.code != Errc::ok) step.stop(fired_->stopped.code, fired_->stopped.text);
  }
  void end() {  // before the step is released: afterwards it may be another run's
    std::lock_guard lock(fired_->mutex);
    fired_->step = nullptr;
  }

 private:
  RunTable& runs_;
  const std::shared_ptr<Fired> fired_;
  std::shared_ptr<void> watching_;
  std::list<Fired*>::iterator at_;
};

// The training step of a run. Ends it however the run ends: shards wait for steps under way.
class RunTable::CountedStep {
 public:
  CountedStep(RunTable& runs, const PreparedCall& call, int64_t wanted, RunContext& context)
      : runs_(runs), call_(call) {
    if (call.replicas.empty()) return;
    std::lock_guard lock(runs.mutex_);
    runs.steps_.begin(call.replicas, wanted, context, call.id);
    step_ = context.step;
  }
  ~CountedStep() {
    if (call_.replicas.empty()) return;
    std::vector<TrainingSteps::Behind> behind;
    {
      std::lock_guard lock(runs_.mutex_);
      behind = runs_.steps_.end(call_.replicas, step_, call_.id, whole);
    }
    runs_.go_on(behind);
  }
  CountedStep(const CountedStep&) = delete;
  bool whole = false;  // set if it has ended with all its pushes

 private:
  RunTable& runs_;
  const PreparedCall& call_;
  int64_t step_ = -1;
};

// Tells shards again which steps are over: a waiting run has told them when fewer were, and there
// may be no later run to do it. A pull like that run's own carries the number.
void RunTable::go_on(const std::vector<TrainingSteps::Behind>& behind) {
  ParameterPort* const port = behind.empty() ? nullptr : process_.services().port(session_);
  if (!port) return;
  for (const TrainingSteps::Behind& those : behind) {
    std::set<std::string> names;
    for (const int64_t id : those.calls) {
      const std::shared_ptr<const PreparedCall> call = calls_.standing(id).prepared;
      for (const int32_t n : call->nodes) {
        const Node& node = call->graph->node(n);
        const auto replica = node.attrs.find("replica"), name = node.attrs.find("parameter");
        if (!node.op->stateful || replica == node.attrs.end() || name == node.attrs.end()) continue;
        const auto* number = std::get_if<int64_t>(&replica->second);
        const auto* text = std::get_if<std::string>(&name->second);
        if (number && text && *number == those.replica) names.insert(*text);
      }
    }
    for (const std::string& name : names) {
      const Failure failed = failure_of([&] {
        port->pull(name, {those.replica, those.first, those.first},
                   [](Errc, std::string, Tensor) {});
      });
      if (failed.code != Errc::ok)
        process_.log()->warn(
            "shards are not told that steps are over, those behind may have to wait for their "
            "deadline: parameter={} replica={} error={}",
            name, those.replica, failed.text);
    }
  }
}

RunResult RunTable::fire(const Calls::Standing& call, const std::vector<Tensor>& feeds,
                         const RunOptions& options) {
  Firing firing(*this, call.prepared->id, options);
  const LiveCall& live = *call.live;
  PartitionExecutor& executor = *live.client;
  RunContext context;
  context.run = firing.run();
  context.step = options.step;
  CountedStep counted(*this, *call.prepared, options.step, context);
  context.parameters = process_.services().port(session_);
  context.resources = live.local->resources();
  StepPtr step = executor.begin(context);
  feed(live, feeds, *step);
  firing.begin(*step);
  fire_here(*step, options.timeout);
  firing.end();
  RunResult result = result_of(live, *step);
  executor.release(std::move(step));
  counted.whole = result.code == Errc::ok;
  return result;
}

// Runs without shared writes

RunTable::Seat& RunTable::seat_here() {
  std::atomic<Seat*>& mine = seats_[static_cast<size_t>(thread_index())];
  if (Seat* seat = mine.load(std::memory_order_acquire)) return *seat;
  auto made = std::make_unique<Seat>();
  Seat* other = nullptr;
  return mine.compare_exchange_strong(other, made.get(), std::memory_order_acq_rel)
             ? *made.release()
             : *other;
}

// `as_of`: Calls::changes() before `call` was looked up.
void RunTable::keep(Seat& seat, const Calls::Standing& call, int64_t id, uint64_t as_of) {
  if (!call.prepared->replicas.empty() || call.live->client->program().waits()) return;
  Kept made{id, as_of, call.prepared, call.live, process_.services().port(session_)};
  std::lock_guard lock(seat.mutex);
  if (seat.step) return;  // this thread is in a function that a run of this seat calls
  std::swap(made, seat.kept[static_cast<size_t>(id) % seat.kept.size()]);
}  // the old entry is destroyed after the lock is released

void RunTable::forget(int64_t call) {
  std::vector<Kept> old;  // destroyed after the locks are released
  for (auto& at : seats_) {
    Seat* const seat = at.load(std::memory_order_acquire);
    if (!seat) continue;
    std::lock_guard lock(seat->mutex);
    for (Kept& kept : seat->kept) {
      if (kept.call < 0 || (call >= 0 && kept.call != call)) continue;
      if (seat->step)
        seat->forgotten = true;
      else
        old.push_back(std::exchange(kept, {}));
    }
  }
}

RunResult RunTable::fire_kept(Seat& seat, std::unique_lock<std::mutex> lock, const Kept& call,
                              const std::vector<Tensor>& feeds, const RunOptions& options) {
  if (stopped_.load(std::memory_order_relaxed)) return {Errc::cancelled, kSessionClosed, {}};
  check_feeds(*call.prepared, feeds);
  if (seat.next_run == seat.runs_end) {
    seat.next_run = next_run_.fetch_add(kRunsDrawn);
    seat.runs_end = seat.next_run + kRunsDrawn;
  }
  const LiveCall& live = *call.live;
  PartitionExecutor& executor = *live.client;
  RunContext context;
  context.run = seat.next_run++;
  context.step = options.step;
  context.parameters = call.parameters;
  context.resources = live.local->resources();
  StepPtr step = executor.begin(context);
  feed(live, feeds, *step);
  seat.seen.reset();
  seat.reported = false;
  seat.timeout = options.timeout;
  seat.step = step.get();
  lock.unlock();
  try {
    fire_here(*step, options.timeout);
  } catch (...) {
    lock.lock();
    seat.step = nullptr;
    throw;
  }
  lock.lock();
  seat.step = nullptr;
  RunResult result = result_of(live, *step);
  executor.release(std::move(step));
  if (seat.forgotten) [[unlikely]] {
    seat.forgotten = false;
    const auto old = std::exchange(seat.kept, {});
    lock.unlock();
  }
  return result;
}

RunResult RunTable::run(int64_t id, const std::vector<Tensor>& feeds, const RunOptions& options) {
  check_options(options);
  const uint64_t as_of = calls_.changes();
  Seat* const seat = options.cancel ? nullptr : &seat_here();
  if (seat) {
    std::unique_lock lock(seat->mutex);
    const Kept& kept = seat->kept[static_cast<size_t>(id) % seat->kept.size()];
    if (!seat->step && kept.call == id && kept.as_of == as_of) [[likely]]
      return fire_kept(*seat, std::move(lock), kept, feeds, options);
  }
  const Calls::Standing call = calls_.standing(id);
  if (call.live && call.live->one_local_executor()) {
    check_feeds(*call.prepared, feeds);
    if (seat) keep(*seat, call, id, as_of);
    return fire(call, feeds, options);
  }
  std::promise<RunResult> promise;
  std::future<RunResult> future = promise.get_future();
  begin(call, id, feeds, options, std::this_thread::get_id(),
        [&promise](RunResult result) { promise.set_value(std::move(result)); });
  return future.get();  // it is always set: at the latest at the deadline
}

}  // namespace troupe
