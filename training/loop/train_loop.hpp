// TrainLoop: decides which replica runs which step, when a checkpoint is taken, and what follows
// from a failed step or lost shards. It has no threads, clocks or sessions: time and events come
// in, actions go out. TrainDriver carries them out, in train() and in the simulator.
//
// Every replica runs its own steps. At a checkpoint's step all replicas stop until the shards have
// captured their state, so that shards and replicas agree on its step; under the synchronous rule
// they are at the same step anyway. Its files are written while replicas go on; the next checkpoint
// waits for them. When shards are lost, every replica goes back to the step of the restored
// checkpoint, under a new epoch. When only links were lost, every replica continues where it was,
// and the epoch stays.
//
// At a pause's step all replicas stop, too, until the program has looked at the parameters. A pause
// comes before the checkpoint of its step, so a restored state is never older than the one that the
// program has seen; it waits until the files of the checkpoint before are written.
//
// Every action that wants an answer gets exactly one. One checkpoint or restore is open at a time,
// and no restore while a step or a checkpoint is, so an answer never belongs to an older action. A
// checkpoint whose files are not all written when shards are lost is given up, as a disk that is
// slow or does not answer would hold the restore.
//
// A checkpoint of the last step that cannot be written is tried again until patience ends; training
// then finishes without it, as the values are still there.
//
// Without a readable and whole checkpoint where there was one, the loop waits as for a lost
// process; it does not begin anew.
//
// Shards that are lost again and again are restored later and later, and in the end training fails
// (recoveries.hpp).
//
// At a step from which another rule or rate scale holds all replicas stop as well, until the
// shards have it. It comes after the pause and before the checkpoint of its step, and does not wait
// for the files of the checkpoint before.
//
// A step with bad data, a gradient that is not finite for example, may be a reason to go back to
// the checkpoint: a fault that passes does not come again. The same step ends the training then.
//
// Under a rule of local steps all of these wait for the end of the round. A replica whose process
// has lost its copies goes back to the first step of the round, and data that end within a round
// end the training where the round began.
//
// A step that fails because its data have ended ends the training there, as if the plan had no more
// steps.
//
// Under a rule with backup replicas, a step that one replica has done is over for all: the shards
// take no gradient of it any more. A late replica goes on at the newest step, and its data of the
// steps between are passed over.
//
// Patience ends only after a question: a source that still reads towards a step, an archive up to
// its middle, say, counts as progress.
//
// A session that trains the shards of another one is not told of a new epoch: a step that is
// refused as stale may be the first sign. A step may also be refused because its process does not
// know yet where the shards are, so the loop asks for the epoch before it goes back.
//
// Owner: TrainDriver. Thread: the training thread.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "actors/async/backoff.hpp"
#include "training/loop/checkpoint_schedule.hpp"
#include "training/loop/recoveries.hpp"
#include "training/loop/replica_steps.hpp"
#include "training/loop/term_schedule.hpp"
#include "troupe/error.hpp"

namespace troupe {

struct TrainAction {
  enum Kind : uint8_t {
    start,         // run `step` of `replica`
    cancel,        // end all running steps soon; each still reports, as do a checkpoint and a pause
    change_terms,  // give the shards what terms() is telling from `step` on; answer: terms_told()
    checkpoint,    // take one at `step`; call checkpoint_captured(), answer with checkpoint_ended()
    give_up_checkpoint,  // end it soon, unless its files are written; it still answers
    pause,       // let the program look at `step`; answer with pause_ended() or pause_failed()
    restore,     // restore the shards; answer with restored(), shards_kept() or restore_failed();
                 // code bad_data: even if they are as they were
    ask_epoch,   // ask whether the shards' owner has begun a new epoch; answer with epoch_found()
    ask_source,  // ask when a source that steps wait for moved last; answer with source_found()
    finish,      // all replicas are done
    fail,        // give up with `code` and `text`; all replicas are idle
    tell,        // report `text` to a person; `code` is its kind
  } kind;
  int64_t replica = 0, step = 0;
  Errc code = Errc::ok;
  std::string text = {};
};
using TrainActions = std::vector<TrainAction>;

class TrainLoop {
 public:
  using Millis = std::chrono::milliseconds;
  static constexpr int64_t kNoEnd = INT64_MAX;  // of steps: until the data end
  struct Plan {
    std::vector<int64_t> replicas;
    int64_t steps = kNoEnd;
    int64_t checkpoint_every = 0;  // 0: only at the end
    int64_t pause_every = 0;       // 0: never
    bool checkpoints = false;
    bool follows = false;  // another session owns the shards
    Aggregation rule = Aggregation::sync;
    bool reads = false;      // a step may wait for a source
    int64_t roll_backs = 0;  // at most so many, from steps with bad data
    // The order of updates is recorded or repeated: where it decides their bits, a step that reads
    // other values than before takes all replicas back to the checkpoint.
    bool ordered = false;
    bool repeats = false;  // an order: a late replica passes over no step that it may be needed for
    Millis patience{120'000};
  };
  TrainLoop(Plan plan, const std::map<int64_t, int64_t>& next_steps);

  // True for failures of the world, which a later try may not meet; false for mistakes of the
  // program and bad data.
  static bool passes(Errc code);

  TrainActions begin(Millis now);
  TrainActions step_done(int64_t replica, int64_t step, double loss, Millis now);
  TrainActions step_failed(int64_t replica, int64_t step, Errc code, const std::string& text,
                           Millis now);
  // A shard is gone with its values, or the link to it. Steps that end with errors meanwhile do not
  // count as failures.
  // `residuals`: those of replicas (training/codecs/residuals.hpp) are gone with their process, so
  // the shards go back to a checkpoint, at which there are none.
  TrainActions shards_lost(const std::string& text, Millis now, bool residuals = false);
  TrainActions restored(const std::map<int64_t, int64_t>& next_steps, Millis now);
  TrainActions shards_kept(Millis now);  // they are as they were
  TrainActions restore_failed(Errc code, const std::string& text, Millis now);
  TrainActions epoch_found(bool is_new, Millis now);
  // `since`: it has moved; -1: no step waits for a source.
  TrainActions source_found(Millis since, Millis now);
  TrainActions checkpoint_captured(Millis now);
  TrainActions checkpoint_ended(Errc code, const std::string& text, Millis now);
  // Without `more`, training ends at this step.
  TrainActions pause_ended(bool more, Millis now);
  TrainActions pause_failed(Errc code, const std::string& text, Millis now);
  // The change holds from its step on, or from the first step that no replica has begun if that is
  // later; `change.step` becomes that one.
  TrainActions ask(TermChange& change, Millis now);
  TrainActions terms_told(Errc code, const std::string& text, Millis now);
  const TermSchedules& terms() const { return terms_; }
  // Fails with this reason when all replicas are idle.
  TrainActions abandon(Errc code, const std::string& text, Millis now);
  TrainActions tick(Millis now);  // call at least every 50 ms while a retry may be due

  bool ended() const { return phase_ == Phase::finished || phase_ == Phase::failed; }
  int64_t done_steps() const;  // by the slowest replica
  double mean_loss() const;
  int64_t looks() const { return replicas_.looks(); }  // as of ReplicaSteps
  int64_t recoveries() const { return recoveries_.count(); }
  // Ended steps whose updates were lost for good, as the same step made others when done again.
  int64_t lost_updates() const { return recoveries_.lost_updates(); }
  // Why there is no checkpoint of the last step; empty: there is, or none was wanted.
  const std::string& unsaved() const { return checkpoints_.refused(); }

 private:
  static constexpr Millis kWaitingWord{5'000};  // between reports of a restore that is waited for
  enum class Phase : uint8_t { running, capturing, stopping, restoring, finished, failed };
  void go_on(Millis now, TrainActions& out);
  void give_up(Errc code, const std::string& text, TrainActions& out);
  void lose_patience(const Error& e, TrainActions& out);
  void try_again(int64_t replica, int64_t step, const Error& e, Millis now, TrainActions& out);
  bool roll_back(int64_t step, const std::string& text, Millis now, TrainActions& out);
  TrainActions are_back(Millis now);
  void last_refused(Errc code, const std::string& text, Millis now, TrainActions& out);
  void end_unsaved(TrainActions& out);
  int64_t steps() const { return std::min(plan_.steps, input_end_.step); }
  void data_ended(int64_t replica, int64_t step, TrainActions& out);
  void cancel_beyond(TrainActions& out);
  // Nothing is under way, `files`: that of a checkpoint included.
  bool idle(bool files = true) const;
  int64_t barrier() const;  // the step at which all replicas stop next

  const Plan plan_;
  Phase phase_ = Phase::running;
  ReplicaSteps replicas_;
  CheckpointSchedule checkpoints_;
  int64_t end_;  // steps(), or the step at which a pause has ended training
  struct InputEnd {
    int64_t step;            // the first one that the data do not reach, as far as it is known
    bool cancelled = false;  // steps past it
  } input_end_;
  struct Pauses {
    int64_t last = 0;  // the newest that has ended, or the step at which training began
    bool open = false;
    // `every`: as Plan::pause_every. One at the step of a checkpoint comes first.
    bool due(int64_t step, int64_t every) const {
      return every > 0 && CheckpointSchedule::multiple_after(last, every) <= step;
    }
  } pauses_;
  TermSchedules terms_;
  Recoveries recoveries_;
  struct Asked {
    std::optional<int64_t> epoch;  // recoveries() when the epoch was asked for
    std::optional<Error> source;   // the failure that ends the training if no source moves
  } asked_;
  bool lost_again_ = false;  // shards were lost while others were being restored
  Backoff retry_;            // of the present checkpoint, pause or restore
  Millis last_progress_{0};
  struct Told {
    Millis at{0};         // the last report of a loss or a restore
    bool unread = false;  // since this loss: that the checkpoint cannot be read
  } told_;
  std::optional<Error> failure_;
};

}  // namespace troupe
