// RunTable: the runs of one master that are under way. It begins them in all processes of their
// call, ends them once, with the first reason, when all parts have ended or a deadline passes, and
// takes them back. A run of a call that is not ready waits here until it is.
//
// A call that is one stage of this process is fired by the caller's own thread, and nobody else is
// asked.
//
// Owner: the master. Lost when it dies: the runs under way.
#pragma once

#include <atomic>
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

#include "actors/calls.hpp"
#include "actors/slot_steps.hpp"
#include "actors/survey.hpp"

namespace troupe {

// A run without progress for this long is reported: who waits for whom, since when.
inline constexpr std::chrono::seconds kStallReport{5};
// Runs under way in one session; more are refused, so that nothing queues without bound.
inline constexpr size_t kRunsMax = 4096;

class RunTable : public std::enable_shared_from_this<RunTable> {
 public:
  // `master` gets the FinishStep of workers, and hands them to finish_part().
  RunTable(Process& process, Calls& calls, uint64_t session, const caf::actor& master);

  // Throws: Error(invalid_argument) for feeds that do not fit.
  RunResult run(int64_t call, const std::vector<Tensor>& feeds, const RunOptions& options);
  // The same; `done` is called once, on any thread.
  void start(int64_t call, const std::vector<Tensor>& feeds, const RunOptions& options,
             std::function<void(RunResult)> done);
  void set_next_step(int64_t slot, int64_t step);

  void settled(int64_t call);  // it became ready, or failed: what waits for it goes on
  void finish_part(int64_t run, const std::string& task, Errc code, const std::string& text,
                   std::vector<Tensor> kept);
  void member_down(const std::string& task, const std::string& reason);
  // Looks at deadlines. Returns the runs that have not got on for kStallReport, once each.
  std::vector<Stall> tick();
  // The runs that began at least so long ago, and what they wait for in this process. Any thread.
  std::vector<Stall> under_way(std::chrono::milliseconds at_least);
  // Every run under way ends with this reason.
  void cancel_all(Errc code, const std::string& text);
  // No run begins any more; those under way are cancelled. Returns when all have ended: parts in
  // other processes are waited for up to `patience`, those in this one until they do. In a
  // simulation nothing is waited for.
  void stop(std::chrono::milliseconds patience);

 private:
  using Time = caf::actor_clock::time_point;
  struct Run {
    int64_t id = -1;  // -1: waits until its call is ready
    int64_t call = 0;
    std::vector<Tensor> feeds;
    int64_t step = -1;  // as the caller wants it; once it has begun, its own
    std::function<void(RunResult)> done;
    std::thread::id waiter;  // the thread that waits for it, if one does
    Time started, deadline;
    std::shared_ptr<const PreparedCall> prepared;  // once it has begun
    std::shared_ptr<const LiveCall> live;
    std::set<std::string> open;  // tasks whose parts have not ended
    RunResult result;
    bool cancelled = false, reported = false;
    std::shared_ptr<void> cancellation;  // its registration
  };
  using RunPtr = std::shared_ptr<Run>;
  // A step that a caller's thread fires.
  struct Fired {
    std::mutex mutex;            // guards the rest
    Activation* step = nullptr;  // null before and after
    StepResult stopped;          // it was taken back before it began
    std::optional<Time> seen;    // by the first tick() that found it under way
    bool reported = false;
    std::chrono::milliseconds timeout{0};
    void interrupt(Errc code, const std::string& text);
    Stall now_at(Time now, const std::string& task) const;  // requires mutex; a step under way
    std::optional<Stall> look(Time now,
                              const std::string& task);  // of tick(): once, when it is due
  };
  struct Ending;
  void begin(const Calls::Standing& call, int64_t id, const std::vector<Tensor>& feeds,
             const RunOptions& options, std::thread::id waiter,
             std::function<void(RunResult)> done);
  class Firing;  // makes one known to cancel_all() and to the caller's Cancellation

  Time now() const { return process_.system().clock().now(); }
  RunResult fire(const Calls::Standing& call, const std::vector<Tensor>& feeds,
                 const RunOptions& options);
  void launch(const RunPtr& run, const Calls::Standing& call);
  void send_start(const Run& run, const RunContext& context, int64_t oldest);
  void end(const RunPtr& run, RunResult result);
  void abort(const RunPtr& run, Errc code, const std::string& text);
  std::string late_text(int64_t call) const;
  static Stall now_at(Time t, const Run& run);  // requires mutex_

  Process& process_;
  Calls& calls_;
  const uint64_t session_;
  const caf::actor& master_;
  std::atomic<int64_t> next_run_{0};

  std::mutex mutex_;  // guards the rest
  std::condition_variable ended_;
  std::map<int64_t, RunPtr> runs_;                // begun, by number
  std::map<int64_t, std::list<RunPtr>> waiting_;  // not begun, by call
  size_t waiting_count_ = 0;
  int ending_ = 0;  // runs whose `done` is being called
  std::list<Fired*> fired_;
  SlotSteps steps_;
  bool stopped_ = false;
};

}  // namespace troupe
