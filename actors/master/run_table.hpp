// RunTable: the runs of one master that are under way. It begins a run in all processes of its
// call, ends it once, with the first failure, when all parts have ended or a deadline passes, and
// cancels it. A run of a call that is not ready waits here until it is. LocalRuns runs the calls
// that need no other thread.
//
// Owner: the master. When it dies, the runs under way are lost. Thread: any.
#pragma once

#include <condition_variable>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "actors/master/local_runs.hpp"
#include "devices/run_context.hpp"
#include "devices/threads/work_queue.hpp"

namespace troupe {

// The limit of runs under way in one session; more are refused, so that no queue grows without
// bound.
inline constexpr size_t kRunsMax = 4096;

class RunTable : public std::enable_shared_from_this<RunTable> {
 public:
  // `master` receives the FinishStep messages of workers, and passes them to finish_part().
  RunTable(Process& process, Calls& calls, uint64_t session, const MasterDoor& master);

  // Throws: Error(invalid_argument) for feeds that do not fit.
  RunResult run(int64_t call, const std::vector<Tensor>& feeds, const RunOptions& options);
  // The same; `done` is called once. In a member of a cluster a thread of their own calls all of
  // them, in the order of their ends, since the network thread may end a run. A process without
  // links calls it on the thread that ends the run.
  void start(int64_t call, const std::vector<Tensor>& feeds, const RunOptions& options,
             std::function<void(RunResult)> done);
  TrainingSteps& steps() { return steps_; }
  // Called when a run has ended with Errc::stale, on the thread that ends it. Set before the first
  // run.
  void set_when_stale(std::function<void()> act) { when_stale_ = std::move(act); }

  void settled(int64_t call);  // the call became ready or failed: continues its waiting runs
  // As LocalRuns::forget().
  void forget(int64_t call = -1) { local_.forget(call); }
  void finish_part(int64_t run, const std::string& task, Errc code, const std::string& text,
                   std::vector<Tensor> kept);
  void member_down(const std::string& task, const std::string& reason);
  void installation_lost(uint32_t executable, const std::string& text);  // its runs: peer_lost
  // Checks deadlines. Returns the runs that have not ended after kStallReport, once each; of those
  // that wait for one call, the first.
  std::vector<Stall> tick();
  // The runs that began at least this long ago, and their waits in this process. Any thread.
  std::vector<Stall> under_way(std::chrono::milliseconds at_least);
  // Ends every run under way with this reason.
  void cancel_all(Errc code, const std::string& text);
  // Refuses new runs and cancels those under way. Returns when all have ended: waits up to
  // `patience` for parts in other processes, and without limit for those in this one. In a
  // simulation it does not wait.
  void stop(std::chrono::milliseconds patience);

 private:
  using Time = LocalRuns::Time;
  struct Run {
    int64_t id = -1;  // -1: waits until its call is ready
    int64_t call = 0;
    std::vector<Tensor> feeds;
    RunOptions options;  // of the caller; after it has begun, with its own step
    std::function<void(RunResult)> done;
    std::thread::id waiter;  // of run(); none: callbacks_, if there, calls `done`
    Time started, deadline;
    std::shared_ptr<const PreparedCall> prepared;  // once it has begun
    std::shared_ptr<const LiveCall> live;
    std::set<std::string> open;  // tasks whose parts have not ended
    RunResult result;
    bool cancelled = false, reported = false;
    std::shared_ptr<void> cancellation;  // its registration
  };
  using RunPtr = std::shared_ptr<Run>;
  struct Ending;
  void begin(const Calls::Standing& call, int64_t id, const std::vector<Tensor>& feeds,
             const RunOptions& options, std::thread::id waiter,
             std::function<void(RunResult)> done);
  RunResult noted(RunResult result) const {
    if (result.code == Errc::stale && when_stale_) [[unlikely]]
      when_stale_();
    return result;
  }
  void make_callbacks();
  void tell(const Run& run, RunResult result);
  Time now() const { return process_.system().clock().now(); }
  void launch(const RunPtr& run, const Calls::Standing& call);
  void send_start(const Run& run, const RunContext& context, int64_t oldest);
  void end(const RunPtr& run, RunResult result);
  void abort(const RunPtr& run, Errc code, const std::string& text);
  std::string late_text(int64_t call) const;
  static Stall now_at(Time t, const Run& run);  // requires mutex_

  Process& process_;
  Calls& calls_;
  const uint64_t session_;
  const MasterDoor& master_;
  std::function<void()> when_stale_;
  TrainingSteps steps_;
  LocalRuns local_;

  std::mutex mutex_;  // guards the rest; taken before those of steps_ and local_
  bool stopped_ = false;
  std::condition_variable ended_;
  std::map<int64_t, RunPtr> runs_;                // begun, by number
  std::map<int64_t, std::list<RunPtr>> waiting_;  // not begun, by call
  size_t waiting_count_ = 0;
  int ending_ = 0;  // runs whose `done` waits or is being called, or that are being cancelled
  std::optional<WorkQueue> callbacks_;  // of start(); last: it ends with the rest in place
};

}  // namespace troupe
