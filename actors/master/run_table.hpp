// RunTable: the runs of one master that are under way. It begins a run in all processes of its
// call, ends it once, with the first failure, when all parts have ended or a deadline passes, and
// cancels it. A run of a call that is not ready waits here until it is.
//
// A call with a single executor in this process runs on the caller's own thread, without other
// actors (run_table_fire.cpp). If that executor waits for no other process and trains nothing, a
// thread that runs the call again uses memory that only it writes, so that threads do not slow each
// other down.
//
// Owner: the master. When it dies, the runs under way are lost. Thread: any.
#pragma once

#include <array>
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

#include "actors/master/calls.hpp"
#include "actors/master/training_steps.hpp"
#include "actors/cluster/survey.hpp"
#include "devices/threads/thread_index.hpp"

namespace troupe {

// A run that has not ended after this long is reported, with its waits and their time.
inline constexpr std::chrono::seconds kStallReport{5};
// The limit of runs under way in one session; more are refused, so that no queue grows without
// bound.
inline constexpr size_t kRunsMax = 4096;
// The failure of a run that its caller has cancelled.
inline constexpr char kTakenBack[] = "the caller cancelled the step";

class RunTable : public std::enable_shared_from_this<RunTable> {
 public:
  // `master` receives the FinishStep messages of workers, and passes them to finish_part().
  RunTable(Process& process, Calls& calls, uint64_t session, const caf::actor& master);
  ~RunTable();

  // Throws: Error(invalid_argument) for feeds that do not fit.
  RunResult run(int64_t call, const std::vector<Tensor>& feeds, const RunOptions& options);
  // The same; `done` is called once, on any thread.
  void start(int64_t call, const std::vector<Tensor>& feeds, const RunOptions& options,
             std::function<void(RunResult)> done);
  void set_next_step(int64_t replica, int64_t step);
  std::optional<int64_t> next_step(int64_t replica);  // none while one is under way

  void settled(int64_t call);  // the call became ready or failed: continues its waiting runs
  // Drops the installations of that call that threads keep for their next run; `call` -1: of any
  // call.
  void forget(int64_t call = -1);
  void finish_part(int64_t run, const std::string& task, Errc code, const std::string& text,
                   std::vector<Tensor> kept);
  void member_down(const std::string& task, const std::string& reason);
  void installation_lost(uint32_t executable, const std::string& text);  // its runs: peer_lost
  // Checks deadlines. Returns the runs that have not ended after kStallReport, once each.
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
  using Time = caf::actor_clock::time_point;
  struct Run {
    int64_t id = -1;  // -1: waits until its call is ready
    int64_t call = 0;
    std::vector<Tensor> feeds;
    int64_t step = -1;  // as wanted by the caller; after it has begun, its own
    std::function<void(RunResult)> done;
    std::thread::id waiter;  // the thread that waits for it, if any
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
    int64_t run = -1, call = -1;  // for those in fired_; guarded by the table's mutex
    mutable std::mutex mutex;     // guards the rest
    Step* step = nullptr;         // null before it begins and after it ends
    StepResult stopped;           // set if it was cancelled before it began
    std::optional<Time> seen;     // by the first tick() that found it under way
    bool reported = false;
    std::chrono::milliseconds timeout{0};
    void interrupt(Errc code, const std::string& text);
    Stall now_at(Time now, const std::string& task) const;  // requires mutex, and a step under way
    std::optional<Stall> look(Time now,
                              const std::string& task);  // for tick(): once, when it is due
  };
  // A call whose runs read nothing that other threads write.
  struct Kept {
    int64_t call = -1;
    uint64_t as_of = 0;  // Calls::changes()
    std::shared_ptr<const PreparedCall> prepared;
    std::shared_ptr<const LiveCall> live;
    ParameterPort* parameters = nullptr;
  };
  // The step of such a call that a thread runs, and the calls that it ran last. Only this thread
  // writes here, except for a thread that cancels a run or inspects it.
  struct alignas(kCacheLine) Seat : Fired {
    std::array<Kept, 4> kept;  // by the call's number modulo the size
    bool forgotten = false;    // drop `kept` when the step has ended
    int64_t next_run = 0, runs_end = 0;
  };
  static constexpr int64_t kRunsDrawn = 64;  // run numbers that a seat takes at once
  struct Ending;
  void begin(const Calls::Standing& call, int64_t id, const std::vector<Tensor>& feeds,
             const RunOptions& options, std::thread::id waiter,
             std::function<void(RunResult)> done);
  class CountedStep;
  void go_on(const std::vector<TrainingSteps::Behind>& behind);
  class Firing;  // registers a step with cancel_all() and with the caller's Cancellation

  Time now() const { return process_.system().clock().now(); }
  static void check_feeds(const PreparedCall& call, const std::vector<Tensor>& feeds);
  RunResult fire(const Calls::Standing& call, const std::vector<Tensor>& feeds,
                 const RunOptions& options);
  RunResult fire_kept(Seat& seat, std::unique_lock<std::mutex> lock, const Kept& call,
                      const std::vector<Tensor>& feeds, const RunOptions& options);
  Seat& seat_here();
  void keep(Seat& seat, const Calls::Standing& call, int64_t id, uint64_t as_of);
  template <class F>
  void each_fired(const F& f) {  // requires mutex_, and no Fired's mutex
    for (Fired* fired : fired_) f(*fired);
    for (const auto& seat : seats_)
      if (Fired* fired = seat.load(std::memory_order_acquire)) f(*fired);
  }
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
  std::atomic<bool> stopped_{false};                           // set with mutex_
  std::array<std::atomic<Seat*>, kThreadIndices> seats_ = {};  // by thread_index(); never removed

  std::mutex mutex_;  // guards the rest; taken before a Fired's
  std::condition_variable ended_;
  std::map<int64_t, RunPtr> runs_;                // begun, by number
  std::map<int64_t, std::list<RunPtr>> waiting_;  // not begun, by call
  size_t waiting_count_ = 0;
  int ending_ = 0;  // runs whose `done` is being called, or that are being cancelled
  std::list<Fired*> fired_;
  TrainingSteps steps_;
};

}  // namespace troupe
