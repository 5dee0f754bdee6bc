// AggregationRule: when gradients of one slice become an update, and which values a pull may read.
// Plain state. Kinds: rule_sync.cpp, rule_backup.cpp, rule_async.cpp, rule_ssp.cpp,
// rule_local.cpp.
//
// The shard refuses gradients that are out of sequence or fenced; a rule never sees them. One that
// is not finite is refused as well, or comes without its values: it counts as its replica's.
// Owner: a Shard, one object per slice. Thread: the shard's, one at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "training/rules/gradient.hpp"
#include "troupe/error.hpp"
#include "troupe/optimizer.hpp"
#include "troupe/training.hpp"

namespace troupe {

// One replica's gradient for one step, or its change over a round of local steps.
struct Contribution {
  int32_t replica = 0;
  int64_t step = 0;
  uint64_t incarnation = 0;
  Gradient gradient;  // undefined: it was not finite, and changes nothing
  int64_t steps = 1;  // that it is of: `step` and those before it
};

// How far a replica has come with one slice; travels with snapshots, so that no push counts twice.
struct ReplicaProgress {
  int32_t replica = 0;
  // The smallest step that the rule has not counted, or the one after the largest counted.
  int64_t next_step = 0;
  // Bit i: step next_step - 1 - i was counted. Steps of one replica may overtake each other by less
  // than 64.
  uint64_t counted = ~uint64_t{0};
  friend bool operator==(const ReplicaProgress&, const ReplicaProgress&) = default;

  static constexpr int64_t kWindow = 64;  // the most recent steps, remembered one by one
  // By how many steps `step` is older than the newest counted step; negative if it is newer.
  int64_t behind(int64_t step) const { return next_step - 1 - step; }
  // Why a push of a step so far behind is refused.
  std::string too_old(int64_t step) const;
  // Requires: behind(step) < kWindow.
  bool has(int64_t step) const { return behind(step) >= 0 && (counted >> behind(step) & 1); }
  void count(int64_t step);
};

class AggregationRule {
 public:
  struct PushVerdict {
    enum Kind : uint8_t {
      kept,     // counted; acknowledge it once take() has handed it out
      waiting,  // the same gradient is already here, not yet applied: acknowledge both together
      applied,  // the same gradient was applied before: acknowledge now
      late,     // its update was made without it: it never counts, and its replica goes on
      refused,  // never counts
    } kind = kept;
    std::string text = {};    // refused: the reason and a remedy
    Errc code = Errc::stale;  // refused: of the answer
  };
  struct PullVerdict {
    enum Kind : uint8_t {
      newest,
      previous,  // the values before the newest update; refused if the shard has none
      wait,
      gone,
    } kind = newest;
    std::string text = {};    // gone: why
    Errc code = Errc::stale;  // gone: of the answer
  };

  virtual ~AggregationRule() = default;
  virtual Aggregation kind() const = 0;

  // The verdict that push() would give, so that the shard can check a gradient before it counts.
  virtual PushVerdict look(int32_t replica, int64_t step) const = 0;
  virtual void push(Contribution contribution) = 0;  // Requires: look() said kept.
  // Ends the replica's steps before `first`: a gradient of theirs that has not arrived never will.
  // Returns whether an update may be due, or a pull that waits may have its answer.
  virtual bool go_on(int32_t replica, int64_t first);
  // Gives up the next update if it waits for a replica that has gone on, and returns that replica;
  // moves the gradients that others pushed for it into `lost`. Returns nothing if there is no such
  // update.
  virtual std::optional<int32_t> skip(std::vector<Contribution>& lost);
  // Moves the gradients of the next update into `out`, in replica order, for the caller to apply
  // their mean. Returns false if no update is due.
  virtual bool take(std::vector<Contribution>& out) = 0;

  virtual PullVerdict pull(int32_t replica, int64_t step) const = 0;  // step -1: the newest
  // A pull of a training step has its answer. An update may be due. A shard tells rules that record
  // an order or repeat one.
  virtual void pulled(int32_t, int64_t) {}
  // The steps that a replica does by itself from the first one of a round on, before it pushes the
  // change of them all; 0: it pushes the gradient of each step.
  virtual int64_t local_steps(int64_t) const { return 0; }
  // No pull of this step or an earlier one waits. It moves in push(), take(), skip() and go_on().
  virtual int64_t open_to() const = 0;
  // Replicas that the calls above have looked at one by one, for tests of their cost.
  virtual int64_t looks() const { return 0; }

  virtual int compare_step(
      int64_t step) const = 0;  // of a snapshot "at step": 0 now, > 0 not yet, < 0 too late
  virtual int64_t next_step() const = 0;  // of the slowest replica
  // Does not count gradients that are held.
  virtual std::vector<ReplicaProgress> progress() const = 0;
  virtual int64_t held() const = 0;  // gradients counted and not yet taken
  // The replicas that an update in progress waits for.
  virtual std::vector<int32_t> missing() const = 0;
};

// One entry for each of the replicas 0 .. count - 1, all at `next_step`.
std::vector<ReplicaProgress> replicas_at(int32_t count, int64_t next_step);

// Throws: Error(invalid_argument) for a rule that so many replicas cannot follow.
void check_rule(const Aggregation& rule, size_t replicas);

// The same for a rule of a training of these parameters: each one that it names is among them.
void check_rule(const Aggregation& rule, size_t replicas,
                const std::vector<std::string>& parameters);

// Throws: Error(invalid_argument) if the rule changes learning rates and this optimizer of `what`
// takes one alone.
void check_rule(const Aggregation& rule, const Optimizer& optimizer, const std::string& what);

// `progress`: one entry per replica, ascending by replica; their next_step must agree under a rule
// by steps. Throws: Error(invalid_argument) otherwise, and as check_rule().
std::unique_ptr<AggregationRule> make_rule(const Aggregation& rule,
                                           std::vector<ReplicaProgress> progress);

}  // namespace troupe
