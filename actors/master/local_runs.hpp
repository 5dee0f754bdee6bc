// LocalRuns: the runs of one master that callers fire on their own threads, without other actors:
// those of calls with a single executor, in this process. It also numbers all runs of the master.
//
// Most of the cost of a short run is memory that other threads write, too: locks, counts, lists. If
// a call's executor waits for no other process and trains nothing, a thread that runs it again uses
// memory that only it writes: a seat with the calls it ran last, the numbers of its runs, and the
// step state that the executor keeps for it. Other threads take the seat's lock only briefly: in
// tick(), under_way() and to interrupt.
//
// Owner: RunTable. When it dies, the runs under way are lost. Thread: any.
#pragma once

#include <array>
#include <atomic>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "actors/cluster/survey.hpp"
#include "actors/master/calls.hpp"
#include "actors/master/training_steps.hpp"
#include "devices/threads/thread_index.hpp"
#include "troupe/session.hpp"

namespace troupe {

// A run that has not ended after this long is reported, with its waits and their time.
inline constexpr std::chrono::seconds kStallReport{5};
// The failure of a run that its caller has cancelled.
inline constexpr char kTakenBack[] = "the caller cancelled the step";

class LocalRuns {
  struct Kept;
  struct Seat;

 public:
  using Time = caf::actor_clock::time_point;
  LocalRuns(Process& process, uint64_t session, TrainingSteps& steps)
      : process_(process), session_(session), steps_(steps) {}
  ~LocalRuns();

  // Runs a call that has one local executor. Throws: Error(invalid_argument) for feeds that do not
  // fit.
  RunResult run(const Calls::Standing& call, const std::vector<Tensor>& feeds,
                const RunOptions& options);

  // A call that this thread has run before, ready to run in its seat.
  struct Ready {
    Seat* seat = nullptr;  // null: there is none
    std::unique_lock<std::mutex> lock;
    const Kept* call = nullptr;
  };
  // `as_of`: Calls::changes() now.
  Ready ready(int64_t call, uint64_t as_of);
  RunResult run(Ready ready, const std::vector<Tensor>& feeds, const RunOptions& options);
  // Keeps the call for this thread's next run, if its runs need no shared memory. `as_of`:
  // Calls::changes() before `call` was looked up.
  void keep(const Calls::Standing& call, uint64_t as_of);
  // Drops the installations of that call that threads keep for their next run; `call` -1: of any
  // call.
  void forget(int64_t call = -1);

  int64_t next_number() { return next_run_++; }
  // RunContext::draws of a run of `call` with training step `step`, -1 for none: of the seed, or
  // the number of runs that have drawn before. The first draws as step 0 does.
  uint64_t draws(const PreparedCall& call, const std::optional<int64_t>& seed, int64_t step) {
    if (seed) return mixed(static_cast<uint64_t>(*seed));
    return step < 0 && call.draws ? drawn_++ : 0;
  }
  // The oldest of `run` and the runs of `call` that are numbered and have not ended.
  int64_t oldest(int64_t call, int64_t run);
  // Interrupts those that take too long. Adds those that have not ended after kStallReport, once
  // each.
  void tick(Time now, std::vector<Stall>& stalls);
  void under_way(Time now, std::chrono::milliseconds at_least, std::vector<Stall>& out);
  void interrupt_all(Errc code, const std::string& text);
  void stop();  // refuses new runs

 private:
  // A step that a caller's thread fires.
  struct Fired {
    int64_t run = -1, call = -1;  // for those in fired_; guarded by LocalRuns::mutex_
    mutable std::mutex mutex;     // guards the rest
    Step* step = nullptr;         // null before it begins and after it ends
    StepResult stopped;           // set if it was interrupted before it began
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
  class Registered;  // registers a step with interrupt_all() and with the caller's Cancellation

  RunResult fire(Fired& fired, std::unique_lock<std::mutex>& lock, const LiveCall& call,
                 RunContext& context, const std::vector<Tensor>& feeds, const RunOptions& options);
  Seat& seat_here();
  // Another number for each seed, none of them small: the numbers of runs are (Steele et al. 2014,
  // SplitMix64).
  static uint64_t mixed(uint64_t seed) {
    seed += 0x9e3779b97f4a7c15u;
    seed = (seed ^ seed >> 30) * 0xbf58476d1ce4e5b9u;
    seed = (seed ^ seed >> 27) * 0x94d049bb133111ebu;
    return seed ^ seed >> 31;
  }
  template <class F>
  void each_fired(const F& f) {  // requires mutex_, and no Fired's mutex
    for (Fired* fired : fired_) f(*fired);
    for (const auto& seat : seats_)
      if (Fired* fired = seat.load(std::memory_order_acquire)) f(*fired);
  }

  Process& process_;
  const uint64_t session_;
  TrainingSteps& steps_;
  std::atomic<int64_t> next_run_{0};
  std::atomic<uint64_t> drawn_{0};    // runs outside training that have drawn random numbers
  std::atomic<bool> stopped_{false};  // set with mutex_
  std::array<std::atomic<Seat*>, kThreadIndices> seats_ = {};  // by thread_index(); never removed
  std::mutex mutex_;  // guards fired_; taken before a Fired's
  std::list<Fired*> fired_;
};

}  // namespace troupe
