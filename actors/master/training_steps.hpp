// TrainingSteps: the training steps of one session, by replica: the next number, and the steps
// under way. Shards wait for steps under way, so each step ends, however its run ends.
// Owner: RunTable. Thread: any.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "actors/master/calls.hpp"
#include "devices/run_context.hpp"
#include "troupe/op.hpp"

namespace troupe {

class TrainingSteps {
 public:
  TrainingSteps(Process& process, Calls& calls, uint64_t session)
      : process_(process), calls_(calls), session_(session) {}

  // True while train() numbers the steps. A run that pushes gradients then gives its step, or is
  // refused: it would take the place of the next step of the training.
  void train(bool on) { trained_ = on; }
  // Other sessions train the parameters, too: a step that is not trained here may come from them.
  void share() { shared_ = true; }
  RunResult refusal(const PreparedCall& call, int64_t wanted) const;  // code ok: none
  // Begins a run of `call` that advances its replicas, at step `wanted` or, if that is negative, at
  // the next step of all of them; sets `context`'s step. A caller that counts the steps itself may
  // repeat one. Its step after a gap moves the count once all its pushes are done, as shards refuse
  // a step far ahead. If the steps are counted here, sets the first step that is not over, too: the
  // oldest one under way.
  void begin(const PreparedCall& call, int64_t wanted, RunContext& context);
  // The run has ended in all its parts; `whole`: with all its pushes. Shards may be told, with no
  // lock held.
  void end(const PreparedCall& call, int64_t step, bool whole);
  // A step of a run that ends with the scope.
  class Counted {
   public:
    Counted(TrainingSteps& steps, const PreparedCall& call, int64_t wanted, RunContext& context)
        : steps_(steps), call_(call) {
      steps_.begin(call, wanted, context);
      step_ = context.step;
    }
    ~Counted() { steps_.end(call_, step_, whole); }
    Counted(const Counted&) = delete;
    bool whole = false;  // set if it has ended with all its pushes

   private:
    TrainingSteps& steps_;
    const PreparedCall& call_;
    int64_t step_ = -1;
  };
  void set_next(int64_t replica, int64_t step);
  std::optional<int64_t> next(int64_t replica);  // none while a step of the replica is under way

 private:
  struct Steps {
    int64_t next = 0;
    std::multimap<int64_t, int64_t> open;  // by step: the run's call
    bool by_hand = false;                  // some of those under way are numbered by their callers
    bool gaps = false;  // since `open` was last empty, a step has not pushed all that others push
  };
  // Runs under way that told shards of fewer finished steps than there are by now: shards may wait
  // for pushes that never come.
  struct Behind {
    int64_t replica = 0, first = 0;  // earlier steps are over
    std::vector<int64_t> calls;      // the calls of those runs
  };
  void tell(const std::vector<Behind>& behind);

  Process& process_;
  Calls& calls_;
  const uint64_t session_;
  std::atomic<bool> trained_{false}, shared_{false};
  mutable std::mutex mutex_;        // guards steps_
  std::map<int64_t, Steps> steps_;  // by replica
};

}  // namespace troupe
