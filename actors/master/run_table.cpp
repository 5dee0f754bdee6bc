// Begins, ends and cancels runs, and watches their deadlines.
#include "actors/master/run_table.hpp"

#include <algorithm>
#include <future>
#include <limits>

#include "actors/async/deadline.hpp"
#include "actors/master/gate.hpp"
#include "actors/async/joined.hpp"
#include "actors/async/messages.hpp"
#include "devices/run_context.hpp"
#include "graph/base/fail_point.hpp"
#include "graph/base/mutant.hpp"

namespace troupe {
namespace {

// The tasks that have not finished their part, and the waits in this process.
std::string waited_for(const Stall& stall) {
  return joined(stall.open) +
         (stall.waits_for.empty() ? "" : " (here for " + joined(stall.waits_for) + ")");
}

const char kClosing[] = "the session is closing";

}  // namespace

RunTable::RunTable(Process& process, Calls& calls, uint64_t session, const MasterDoor& master)
    : process_(process),
      calls_(calls),
      session_(session),
      master_(master),
      steps_(process, calls, session),
      local_(process, session, steps_) {}

Stall RunTable::now_at(Time t, const Run& run) {
  return {run.id,
          run.live->executable,
          std::chrono::duration<double>(t - run.started).count(),
          {run.open.begin(), run.open.end()},
          run.live->local->waiting_for(run.id),
          true};
}

std::vector<Stall> RunTable::under_way(std::chrono::milliseconds at_least) {
  const Time t = now();
  std::vector<Stall> out;
  std::lock_guard lock(mutex_);
  for (const auto& [id, run] : runs_)
    if (t - run->started >= at_least) out.push_back(now_at(t, *run));
  local_.under_way(t, at_least, out);
  return out;
}

RunResult RunTable::run(int64_t id, const std::vector<Tensor>& feeds, const RunOptions& options) {
  check_options(options);
  const uint64_t as_of = calls_.changes();
  if (!options.cancel)
    if (LocalRuns::Ready ready = local_.ready(id, as_of); ready.seat) [[likely]]
      return noted(local_.run(std::move(ready), feeds, options));
  const Calls::Standing call = calls_.standing(id);
  if (call.live && call.live->one_local_executor()) {
    if (!options.cancel) local_.keep(call, as_of);
    return noted(local_.run(call, feeds, options));
  }
  std::promise<RunResult> promise;
  std::future<RunResult> future = promise.get_future();
  begin(call, id, feeds, options, std::this_thread::get_id(),
        [&promise](RunResult result) { promise.set_value(std::move(result)); });
  return future.get();  // it is always set: at the latest at the deadline
}

void RunTable::start(int64_t id, const std::vector<Tensor>& feeds, const RunOptions& options,
                     std::function<void(RunResult)> done) {
  check_options(options);
  make_callbacks();
  begin(calls_.standing(id), id, feeds, options, {}, std::move(done));
}

void RunTable::begin(const Calls::Standing& call, int64_t id, const std::vector<Tensor>& feeds,
                     const RunOptions& options, std::thread::id waiter,
                     std::function<void(RunResult)> done) {
  check_feeds(*call.prepared, feeds);
  auto run = std::make_shared<Run>();
  run->call = id;
  run->waiter = waiter;
  run->feeds = feeds;
  run->options = options;
  run->done = std::move(done);
  run->started = now();
  run->deadline = deadline_after(run->started, options.timeout);
  if (options.cancel) {
    run->cancellation = options.cancel->watch([runs = weak_from_this(), weak = std::weak_ptr(run)] {
      const auto self = runs.lock();
      const auto r = weak.lock();
      if (self && r) self->abort(r, Errc::cancelled, kTakenBack);
    });
    if (!run->cancellation) return end(run, {Errc::cancelled, kTakenBack, {}});
  }
  RunResult refusal;
  {
    std::lock_guard lock(mutex_);
    if (stopped_)
      refusal = {Errc::cancelled, kSessionClosed, {}};
    else if (runs_.size() + waiting_count_ + static_cast<size_t>(ending_) >= kRunsMax)
      refusal = {Errc::out_of_memory,
                 detail::concat("more than ", kRunsMax,
                                " runs under way or not told yet; wait for some of them"),
                 {}};
    else if (run->cancelled)
      refusal = run->result;
    else
      waiting_[id].push_back(run), ++waiting_count_;
  }
  if (refusal.code != Errc::ok) return end(run, std::move(refusal));
  settled(id);
}

// Without links, which it could hold up, a callback runs on the thread that ends its run.
void RunTable::make_callbacks() {
  if (!process_.mesh() || process_.simulated()) return;
  std::lock_guard lock(mutex_);
  if (!callbacks_) callbacks_.emplace(std::numeric_limits<size_t>::max());  // kRunsMax in fact
}

void RunTable::settled(int64_t id) {
  const Calls::Standing call = calls_.standing(id);
  if (!call.live && call.code == Errc::ok) return;
  std::list<RunPtr> ready;
  {
    std::lock_guard lock(mutex_);
    auto it = waiting_.find(id);
    if (it == waiting_.end()) return;
    ready.swap(it->second);
    waiting_.erase(it);
    waiting_count_ -= ready.size();
  }
  for (const RunPtr& run : ready) {
    if (call.live)
      launch(run, call);
    else
      end(run, {call.code, call.text, {}});
  }
}

void RunTable::launch(const RunPtr& run, const Calls::Standing& call) {
  RunContext context;
  int64_t oldest = 0;
  RunResult refusal;
  {
    std::lock_guard lock(mutex_);
    if (stopped_) {
      refusal = {Errc::cancelled, kSessionClosed, {}};
    } else if (run->cancelled) {
      refusal = run->result;
    } else if (refusal = steps_.refusal(*call.prepared, run->options.step);
               refusal.code == Errc::ok) {
      run->id = context.run = local_.next_number();
      run->reported = false;  // as one that waits, at most
      steps_.begin(*call.prepared, run->options.step, context);
      run->options.step = context.step;
      context.draws = local_.draws(*call.prepared, run->options.seed, context.step);
      context.fence = calls_.fence();
      run->prepared = call.prepared;
      run->live = call.live;
      for (const auto& [task, worker] : call.live->remotes) run->open.insert(task);
      run->open.insert(process_.task());
      runs_[run->id] = run;
      oldest = local_.oldest(run->call, runs_.begin()->first);
    }
  }
  if (refusal.code != Errc::ok) return end(run, std::move(refusal));
  send_start(*run, context, oldest);
  const LiveCall& live = *call.live;
  live.local->forget_before(oldest);
  std::vector<std::pair<uint32_t, Tensor>> sources;
  for (size_t i = 0; i < run->feeds.size(); ++i)
    if (live.feed_slots[i] != kNone)
      sources.emplace_back(live.feed_slots[i], std::move(run->feeds[i]));
  context.parameters = process_.services().port(session_);
  live.local->run(context, live.client, sources, live.fetch_slots,
                  /*here=*/run->waiter == std::this_thread::get_id(),
                  [this, id = run->id](const StepResult& result, std::vector<Tensor> kept) {
                    finish_part(id, process_.task(), result.code, result.text, std::move(kept));
                  });
}

void RunTable::send_start(const Run& run, const RunContext& context, int64_t oldest) {
  StartStep m;
  m.session = session_;
  m.executable = run.live->executable;
  m.run = run.id;
  m.step = context.step;
  m.first_step = context.first_step;
  m.draws = context.draws;
  m.fence = context.fence;
  m.oldest = oldest;
  for (const auto& [task, worker] : run.live->remotes) {
    caf::send_as(master_, worker, m);
    fail_point(FailPoint::master_start_sent);
  }
}

// Removes a run from ending_ once its caller has been told.
struct RunTable::Ending {
  explicit Ending(RunTable& table) : table(table) {}
  ~Ending() {
    std::lock_guard lock(table.mutex_);
    --table.ending_;
    table.ended_.notify_all();
  }
  RunTable& table;
};

void RunTable::finish_part(int64_t id, const std::string& task, Errc code, const std::string& text,
                           std::vector<Tensor> kept) {
  fail_point(FailPoint::master_part_ended);
  RunPtr run;
  RunResult result;
  bool last = false, first_failure = false;
  {
    std::lock_guard lock(mutex_);
    auto it = runs_.find(id);
    if (it == runs_.end() || !it->second->open.erase(task)) return;
    run = it->second;
    if (task == process_.task() && code == Errc::ok) run->result.values = std::move(kept);
    // Keep the first failure; later ones follow from it. But if this process's part was cancelled
    // for that reason, its text adds where it was, and replaces the first.
    first_failure = code != Errc::ok && run->result.code == Errc::ok;
    if (first_failure)
      run->result = {code, text, {}};
    else if (task == process_.task() && code == run->result.code &&
             text.starts_with(run->result.text))
      run->result.text = text;
    last = run->open.empty();
    if (last) {
      ++ending_;
      runs_.erase(it);
      result = std::move(run->result);
    }
  }
  if (!last) {
    if (first_failure) abort(run, code, text);
    return;
  }
  const Ending until_told(*this);
  steps_.end(*run->prepared, run->options.step, result.code == Errc::ok);
  if (result.code != Errc::ok) result.values.clear();
  if (process_.tracer().on()) {
    const int64_t ended = Tracer::now_ns();
    const auto took =
        std::chrono::duration_cast<std::chrono::nanoseconds>(now() - run->started).count();
    process_.tracer().record({"step", detail::concat("run ", id), ended - took, ended, id});
  }
  end(run, std::move(result));
}

// Requires: the run is in neither runs_ nor waiting_.
void RunTable::end(const RunPtr& run, RunResult result) {
  run->cancellation.reset();
  std::shared_ptr<const LiveCall> live;
  bool apart = false;
  {
    std::lock_guard lock(mutex_);
    run->cancelled = true;  // too late to cancel it
    live = std::move(run->live);
    apart = callbacks_ && run->waiter == std::thread::id();
    if (apart) ++ending_;
  }
  live.reset();
  if (!apart) return tell(*run, std::move(result));
  callbacks_->put([this, run, result = std::move(result),
                   until_told = std::make_shared<Ending>(*this)] { tell(*run, result); });
}

void RunTable::tell(const Run& run, RunResult result) {
  const auto threw = [&](const char* error) {  // it must not; this thread is not the program's
    process_.log()->error("the callback of a run threw: run={} error={}", run.id, error);
  };
  try {
    run.done(noted(std::move(result)));
  } catch (const std::exception& e) {
    threw(e.what());
  } catch (...) {
    threw("something that is no std::exception");
  }
}

void RunTable::abort(const RunPtr& run, Errc code, const std::string& text) {
  std::optional<Ending> using_it;  // makes stop() wait for this: a cancelling thread is not in the
                                   // gate
  std::set<std::string> open;
  std::shared_ptr<const LiveCall> live;
  bool waited = false;
  {
    std::lock_guard lock(mutex_);
    if (std::exchange(run->cancelled, true)) return;
    if (run->result.code == Errc::ok) run->result = {code, text, {}};
    open = run->open;
    live = run->live;
    if (auto it = waiting_.find(run->call); it != waiting_.end()) {
      waited = std::erase(it->second, run) > 0;
      waiting_count_ -= waited ? 1 : 0;
    }
    if (!waited) {
      const auto it = runs_.find(run->id);
      // It is on its way to launch(), which looks at `cancelled`, or has ended.
      if (it == runs_.end() || it->second != run) return;
    }
    ++ending_;
    using_it.emplace(*this);
  }
  if (waited) return end(run, {code, text, {}});
  for (const auto& [task, worker] : live->remotes)
    if (open.count(task) &&
        !(mutant(Mutant::cancel_forgets_last) && task == live->remotes.back().first)) {
      CancelStep m;
      m.session = session_;
      m.executable = live->executable;
      m.run = run->id;
      caf::send_as(master_, worker, std::move(m));
      fail_point(FailPoint::master_cancel);
    }
  live->local->cancel(run->id, code, text);
}

void RunTable::cancel_all(Errc code, const std::string& text) {
  std::vector<RunPtr> runs;
  {
    std::lock_guard lock(mutex_);
    for (const auto& [id, run] : runs_) runs.push_back(run);
    for (const auto& [call, waiting] : waiting_)
      runs.insert(runs.end(), waiting.begin(), waiting.end());
    local_.interrupt_all(code, text);
  }
  for (const RunPtr& run : runs) abort(run, code, text);
}

void RunTable::member_down(const std::string& task, const std::string& reason) {
  const std::string text = detail::concat(
      task, " is gone: ", reason, "; run the call again: it waits until ", task, " is back");
  std::vector<int64_t> hit;
  std::vector<RunPtr> starved;  // the lost task's part has ended, perhaps before its values arrived
                                // here
  {
    std::lock_guard lock(mutex_);
    for (const auto& [id, run] : runs_)
      if (run->open.count(task))
        hit.push_back(id);
      else if (run->open.count(process_.task()) && run->live->local->senders().count(task))
        starved.push_back(run);
  }
  for (int64_t id : hit) finish_part(id, task, Errc::peer_lost, text, {});
  for (const RunPtr& run : starved) abort(run, Errc::peer_lost, text);
}

void RunTable::installation_lost(uint32_t executable, const std::string& text) {
  std::vector<RunPtr> hit;
  {
    std::lock_guard lock(mutex_);
    for (const auto& [id, run] : runs_)
      if (run->live->executable == executable) hit.push_back(run);
  }
  for (const RunPtr& run : hit) abort(run, Errc::peer_lost, text);
}

void RunTable::stop(std::chrono::milliseconds patience) {
  {
    std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  local_.stop();
  cancel_all(Errc::cancelled, kClosing);
  std::vector<std::pair<int64_t, std::string>> silent;
  {
    std::unique_lock lock(mutex_);
    const auto ended = [this] { return runs_.empty() && ending_ == 0; };
    if (!process_.simulated()) ended_.wait_for(lock, patience, ended);
    for (const auto& [id, run] : runs_)
      for (const std::string& task : run->open)
        if (task != process_.task()) silent.emplace_back(id, task);
  }
  for (const auto& [id, task] : silent) finish_part(id, task, Errc::cancelled, kClosing, {});
  std::unique_lock lock(mutex_);
  if (!process_.simulated()) ended_.wait(lock, [this] { return runs_.empty() && ending_ == 0; });
}

// Deadlines

std::vector<Stall> RunTable::tick() {
  const Time t = now();
  std::vector<std::pair<RunPtr, std::string>> expired;  // with the nodes that they wait for
  std::vector<RunPtr> late;
  std::vector<std::pair<int64_t, std::string>> silent;  // parts that did not even answer a cancel
  std::vector<Stall> stalls;
  std::vector<std::pair<int64_t, Stall>> not_begun;  // by call
  {
    std::lock_guard lock(mutex_);
    for (const auto& [id, run] : runs_) {
      if (t >= run->deadline && !run->cancelled)
        expired.emplace_back(run, waited_for(now_at(t, *run)));
      if (t >= deadline_after(run->deadline, kAgentTimeout))
        for (const std::string& task : run->open)
          if (task != process_.task()) silent.emplace_back(id, task);
      if (!run->reported && t - run->started >= kStallReport && !mutant(Mutant::stall_not_told)) {
        run->reported = true;
        stalls.push_back(now_at(t, *run));
      }
    }
    local_.tick(t, stalls);
    for (const auto& [call, waiting] : waiting_) {
      for (const RunPtr& run : waiting)
        if (t >= run->deadline) late.push_back(run);
      if (waiting.empty() || waiting.front()->reported) continue;
      const double waited = std::chrono::duration<double>(t - waiting.front()->started).count();
      if (t - waiting.front()->started < kStallReport) continue;
      waiting.front()->reported = true;
      not_begun.push_back({call, {-1, 0, waited, {}, {}, false}});
    }
  }
  for (auto& [call, stall] : not_begun) {
    stall.open = calls_.awaited_tasks(call);
    stalls.push_back(std::move(stall));
  }
  for (const auto& [run, who] : expired)
    abort(run, Errc::timeout,
          detail::concat("the step did not end in time; it waits for ", who,
                         "; give it more time with RunOptions::timeout, or look at the log there"));
  for (const auto& [id, task] : silent)
    finish_part(id, task, Errc::timeout, task + " does not answer; restart it", {});
  for (const RunPtr& run : late) abort(run, Errc::peer_lost, late_text(run->call));
  return stalls;
}

std::string RunTable::late_text(int64_t call) const {
  const std::string missing = calls_.missing_tasks(call);
  if (!missing.empty()) return "waited in vain for " + missing + "; start it again";
  const std::string why = calls_.broken_text(call);
  return detail::concat("the call was not installed in time", why.empty() ? "" : ": ", why,
                        "; give it more time with RunOptions::timeout");
}

}  // namespace troupe
