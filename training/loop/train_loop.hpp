// TrainLoop: what a trainer decides, without threads, clocks or sessions: which replica runs which
// step, when to take a checkpoint, what to do when a step fails or shards are lost. Time and events
// come in, orders go out (train_hands.hpp: the trainer carries them out, and the simulator under
// virtual time).
//
// Every replica runs its own steps. At a checkpoint's step all replicas stop until the shards have
// captured their state, so that shards and replicas agree on what the checkpoint is of; under the
// synchronous rule they are at the same step anyway. Its files are written while replicas go on;
// the next checkpoint waits for them. When shards are lost, every replica goes back to the restored
// checkpoint's step, under a new epoch. When it turns out that only links were, every replica goes
// on where it was, and the epoch stays.
//
// At a pause's step all replicas stop, too, until the program has looked at what it wants to. A
// pause comes before the checkpoint of its step, so what is restored is never older than what was
// looked at; it waits until the files of the checkpoint before are written.
//
// Every order that wants an answer gets exactly one. There is one snapshot or restore at a time,
// and no restore while a step or a snapshot is under way, so an answer never belongs to an older
// order.
//
// A checkpoint that cannot be read, or of which none is whole, is waited for as a lost process is:
// nothing begins anew while there is one.
//
// Shards that are lost again and again are restored later and later, and after kLossesMax losses
// without a step that had not been done before training ends: what kills them is in the program.
//
// Of shards that another session owns, this one is not told when they begin a new epoch: a step
// that is refused as stale may be the first sign. It may also be refused for a passing reason (its
// process does not know yet where shards are), so the loop has somebody look before it goes back.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "troupe/error.hpp"

namespace troupe {

struct TrainOrder {
  enum Kind : uint8_t {
    start,   // run `step` of `replica`
    cancel,  // end all running steps soon; each still reports, as do a snapshot and a pause in time
    snapshot,  // take a checkpoint at `step`; say snapshot_captured(), answer with snapshot_taken()
    pause,     // let the program look at `step`; answer with pause_ended() or pause_failed()
    restore,   // bring the shards back; answer with restored(), shards_kept() or restore_failed()
    ask_epoch,  // whether the shards' owner has begun a new epoch; answer with epoch_found()
    finish,     // all replicas are done
    fail,       // give up with `code` and `text`; all replicas are idle
    tell,       // a person should know `text`; `code` says what kind of thing it is
  } kind;
  int64_t replica = 0, step = 0;
  Errc code = Errc::ok;
  std::string text = {};
  friend bool operator==(const TrainOrder&, const TrainOrder&) = default;
};
using TrainOrders = std::vector<TrainOrder>;

class TrainLoop {
 public:
  using Millis = std::chrono::milliseconds;
  struct Plan {
    std::vector<int64_t> replicas;
    int64_t steps = 0;
    int64_t checkpoint_every = 0;  // 0: only at the end
    int64_t pause_every = 0;       // 0: never
    bool checkpoints = false;
    bool follows = false;  // another session owns the shards
    Millis patience{120'000};
  };
  TrainLoop(Plan plan, const std::map<int64_t, int64_t>& next_steps);

  // The world's failures pass; the program's and the data's do not.
  static bool passes(Errc code);

  TrainOrders begin(Millis now);
  TrainOrders step_done(int64_t replica, int64_t step, double loss, Millis now);
  TrainOrders step_failed(int64_t replica, int64_t step, Errc code, const std::string& text,
                          Millis now);
  // A shard is gone with its values, or the link to it. Steps end with errors meanwhile; they are
  // not counted as failures.
  TrainOrders shards_lost(const std::string& text, Millis now);
  TrainOrders restored(const std::map<int64_t, int64_t>& next_steps, Millis now);
  TrainOrders shards_kept(Millis now);  // they are as they were
  TrainOrders restore_failed(Errc code, const std::string& text, Millis now);
  TrainOrders epoch_found(bool is_new, Millis now);
  TrainOrders snapshot_captured(Millis now);
  TrainOrders snapshot_taken(Errc code, const std::string& text, Millis now);
  // Without `more`, training ends at this step.
  TrainOrders pause_ended(bool more, Millis now);
  TrainOrders pause_failed(Errc code, const std::string& text, Millis now);
  // Somebody else's reason to end: fails with it when all replicas are idle.
  TrainOrders abandon(Errc code, const std::string& text, Millis now);
  TrainOrders tick(Millis now);  // call at least every 50 ms while a retry may be due

  bool ended() const { return phase_ == Phase::finished || phase_ == Phase::failed; }
  int64_t done_steps() const;  // by the slowest replica
  double mean_loss() const;
  int64_t recoveries() const { return recoveries_; }

 private:
  static constexpr Millis kRetryFirst{20}, kRetryMax{1000};
  static constexpr int kLossesMax = 20;
  static constexpr Millis kWaitingWord{5'000};  // between words about a restore that does not come
  enum class Phase : uint8_t { running, snapshotting, stopping, restoring, finished, failed };
  struct Replica {
    int64_t next = 0;
    bool running = false;
    int failures = 0;  // of this step
    Millis retry_at{0};
    double loss = 0;
    bool has_loss = false;
  };

  void go_on(Millis now, TrainOrders& out);
  void give_up(Errc code, const std::string& text, TrainOrders& out);
  TrainOrders are_back(Millis now);
  // How long to wait after the `failures`-th failure in a row.
  static Millis backoff(int failures);
  bool idle() const;                        // no step, no snapshot and no pause is under way
  int64_t barrier() const;                  // the step at which all replicas stop next
  bool wants_pause(int64_t step) const;     // before anything else happens there
  bool wants_snapshot(int64_t step) const;  // then

  const Plan plan_;
  Phase phase_ = Phase::running;
  std::map<int64_t, Replica> replicas_;
  int64_t last_snapshot_ = -1;    // the newest captured one, or what training began with
  int64_t snapshot_step_ = -1;    // of the newest order
  int64_t snapshot_before_ = -1;  // last_snapshot_ before it
  int64_t kept_ = -1;             // the newest that is on disk; -1: none
  int64_t end_ = 0;               // plan_.steps, or where a pause has said
  int64_t last_pause_ = 0;        // the newest that has ended, or where training began
  Millis last_progress_{0};
  Millis told_at_{0};         // the last word about a loss or a restore
  bool told_unread_ = false;  // of this loss: that the checkpoint cannot be read
  int64_t recoveries_ = 0;
  int64_t lost_ = 0;             // of these, since the shards were there
  std::optional<int64_t> back_;  // if they were restored since then: how far a replica went back
  int losses_ = 0;               // since the step below
  int64_t farthest_ = 0;         // the most that done_steps() has been
  std::optional<int64_t> asked_at_;  // recoveries_ when the epoch was asked for
  bool snapshot_open_ = false, pause_open_ = false;
  bool lost_again_ = false;  // shards were lost while others were being restored
  int failures_ = 0;         // of the present snapshot, pause or restore
  Millis retry_at_{0};       // of the present snapshot, pause or restore
  bool failing_ = false;
  Errc fail_code_ = Errc::ok;
  std::string fail_text_;
};

}  // namespace troupe
