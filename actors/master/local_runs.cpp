// Fires steps on the threads of their callers.
#include "actors/master/local_runs.hpp"

#include <algorithm>

#include "actors/async/deadline.hpp"
#include "actors/async/joined.hpp"
#include "actors/master/gate.hpp"

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

LocalRuns::~LocalRuns() {
  for (auto& seat : seats_) delete seat.load(std::memory_order_acquire);
}

void LocalRuns::Fired::interrupt(Errc code, const std::string& text) {
  std::lock_guard lock(mutex);
  if (step)
    step->interrupt(code, text);
  else if (stopped.code == Errc::ok)
    stopped = {code, text};
}

// A short step takes less time than reading a clock, so its beginning is not timed: its time counts
// from the first tick that sees it.
std::optional<Stall> LocalRuns::Fired::look(Time now, const std::string& task) {
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

Stall LocalRuns::Fired::now_at(Time now, const std::string& task) const {
  return {step->info().run,
          step->executor().executable(),
          seen ? std::chrono::duration<double>(now - *seen).count() : 0,
          {task},
          step->waiting_for(),
          true};
}

// Requires: `lock` holds the mutex of `fired`, as it does after the return.
RunResult LocalRuns::fire(Fired& fired, std::unique_lock<std::mutex>& lock, const LiveCall& call,
                          RunContext& context, const std::vector<Tensor>& feeds,
                          const RunOptions& options) {
  PartitionExecutor& executor = *call.client;
  context.resources = call.local->resources();
  context.input = call.local->input();
  StepPtr step = executor.begin(context);
  feed(call, feeds, *step);
  fired.seen.reset();
  fired.reported = false;
  fired.timeout = options.timeout;
  fired.step = step.get();
  if (fired.stopped.code != Errc::ok) [[unlikely]]
    step->stop(fired.stopped.code, fired.stopped.text);
  lock.unlock();
  try {
    fire_here(*step, options.timeout);
  } catch (...) {
    lock.lock();
    fired.step = nullptr;
    throw;
  }
  lock.lock();
  fired.step = nullptr;  // before the step is released: afterwards it may be another run's
  RunResult result = result_of(call, *step);
  executor.release(std::move(step));
  return result;
}

// Runs that others know of

class LocalRuns::Registered {
 public:
  Registered(LocalRuns& runs, int64_t call, Cancellation* cancel)
      : runs_(runs), fired_(std::make_shared<Fired>()) {
    if (cancel) {
      watching_ =
          cancel->watch([fired = fired_] { fired->interrupt(Errc::cancelled, kTakenBack); });
      if (!watching_) fired_->interrupt(Errc::cancelled, kTakenBack);
    }
    std::lock_guard lock(runs_.mutex_);
    if (runs_.stopped_) fired_->interrupt(Errc::cancelled, kSessionClosed);
    fired_->call = call;
    fired_->run = runs_.next_number();
    at_ = runs_.fired_.insert(runs_.fired_.end(), fired_.get());
  }
  ~Registered() {
    std::lock_guard lock(runs_.mutex_);
    runs_.fired_.erase(at_);
  }
  Registered(const Registered&) = delete;
  Fired& fired() { return *fired_; }

 private:
  LocalRuns& runs_;
  const std::shared_ptr<Fired> fired_;
  std::shared_ptr<void> watching_;
  std::list<Fired*>::iterator at_;
};

RunResult LocalRuns::run(const Calls::Standing& call, const std::vector<Tensor>& feeds,
                         const RunOptions& options) {
  check_feeds(*call.prepared, feeds);
  if (RunResult refusal = steps_.refusal(*call.prepared, options.step); refusal.code != Errc::ok)
    return refusal;
  Registered registered(*this, call.prepared->id, options.cancel);
  Fired& fired = registered.fired();
  RunContext context;
  context.run = fired.run;
  TrainingSteps::Counted counted(steps_, *call.prepared, options.step, context);
  context.draws = draws(*call.prepared, options.seed, context.step);
  context.parameters = process_.services().port(session_);
  std::unique_lock lock(fired.mutex);
  RunResult result = fire(fired, lock, *call.live, context, feeds, options);
  counted.whole = result.code == Errc::ok;
  return result;
}

int64_t LocalRuns::oldest(int64_t call, int64_t run) {
  std::lock_guard lock(mutex_);
  for (const Fired* fired : fired_)  // numbered, and perhaps not begun yet
    if (fired->call == call) run = std::min(run, fired->run);
  return run;
}

void LocalRuns::tick(Time now, std::vector<Stall>& stalls) {
  std::lock_guard lock(mutex_);
  each_fired([&](Fired& fired) {
    if (auto stall = fired.look(now, process_.task())) stalls.push_back(std::move(*stall));
  });
}

void LocalRuns::under_way(Time now, std::chrono::milliseconds at_least, std::vector<Stall>& out) {
  std::lock_guard lock(mutex_);
  each_fired([&](const Fired& fired) {
    std::lock_guard step(fired.mutex);
    if (fired.step && (at_least.count() <= 0 || (fired.seen && now - *fired.seen >= at_least)))
      out.push_back(fired.now_at(now, process_.task()));
  });
}

void LocalRuns::interrupt_all(Errc code, const std::string& text) {
  std::lock_guard lock(mutex_);
  each_fired([&](Fired& fired) { fired.interrupt(code, text); });
}

void LocalRuns::stop() {
  std::lock_guard lock(mutex_);
  stopped_ = true;
}

// Runs without shared writes

LocalRuns::Seat& LocalRuns::seat_here() {
  std::atomic<Seat*>& mine = seats_[static_cast<size_t>(thread_index())];
  if (Seat* seat = mine.load(std::memory_order_acquire)) return *seat;
  auto made = std::make_unique<Seat>();
  Seat* other = nullptr;
  return mine.compare_exchange_strong(other, made.get(), std::memory_order_acq_rel)
             ? *made.release()
             : *other;
}

void LocalRuns::keep(const Calls::Standing& call, uint64_t as_of) {
  if (!call.prepared->replicas.empty() || call.live->client->program().waits()) return;
  const int64_t id = call.prepared->id;
  Seat& seat = seat_here();
  Kept made{id, as_of, call.prepared, call.live, process_.services().port(session_)};
  std::lock_guard lock(seat.mutex);
  if (seat.step) return;  // this thread is in a function that a run of this seat calls
  std::swap(made, seat.kept[static_cast<size_t>(id) % seat.kept.size()]);
}  // the old entry is destroyed after the lock is released

void LocalRuns::forget(int64_t call) {
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

LocalRuns::Ready LocalRuns::ready(int64_t call, uint64_t as_of) {
  Seat& seat = seat_here();
  std::unique_lock lock(seat.mutex);
  const Kept& kept = seat.kept[static_cast<size_t>(call) % seat.kept.size()];
  if (seat.step || kept.call != call || kept.as_of != as_of) [[unlikely]]
    return {};
  return {&seat, std::move(lock), &kept};
}

RunResult LocalRuns::run(Ready ready, const std::vector<Tensor>& feeds, const RunOptions& options) {
  if (stopped_.load(std::memory_order_relaxed)) return {Errc::cancelled, kSessionClosed, {}};
  const PreparedCall& call = *ready.call->prepared;
  check_feeds(call, feeds);
  if (options.step > 0) [[unlikely]]
    if (RunResult refusal = steps_.refusal(call, options.step); refusal.code != Errc::ok)
      return refusal;
  Seat& seat = *ready.seat;
  if (seat.next_run == seat.runs_end) {
    seat.next_run = next_run_.fetch_add(kRunsDrawn);
    seat.runs_end = seat.next_run + kRunsDrawn;
  }
  if (seat.stopped.code != Errc::ok) [[unlikely]]  // meant for an earlier run
    seat.stopped = {};
  RunContext context;
  context.run = seat.next_run++;
  context.step = options.step;
  context.draws = draws(call, options.seed, options.step);
  context.parameters = ready.call->parameters;
  RunResult result = fire(seat, ready.lock, *ready.call->live, context, feeds, options);
  if (seat.forgotten) [[unlikely]] {
    seat.forgotten = false;
    const auto old = std::exchange(seat.kept, {});
    ready.lock.unlock();
  }
  return result;
}

}  // namespace troupe
