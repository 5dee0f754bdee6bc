// AggregationRule: when gradients of one slice become an update, and which values a pull may read.
// Plain state, one object per slice, owned by its Shard. Kinds: rule_sync.cpp, rule_async.cpp.
//
// A rule never sees what is out of sequence, fenced, or not finite; the shard keeps that away.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "troupe/error.hpp"
#include "troupe/tensor.hpp"
#include "troupe/trainer.hpp"

namespace troupe {

// One replica's gradient for one step.
struct Contribution {
  int32_t replica = 0;
  int64_t step = 0;
  uint64_t incarnation = 0;
  Tensor gradient;   // all elements, or some rows: packed, or [n, elements of a row] with `rows`
  Tensor rows = {};  // i64 [n]: which these are; of [k, elements of a row] each n / k of them
};

// How far a replica has come with one slice; travels with snapshots, so that no push counts twice.
struct ReplicaProgress {
  int32_t replica = 0;
  int64_t next_step =
      0;  // the smallest step the rule has not counted yet, or the one after the largest counted
  // Bit i: step next_step - 1 - i was counted. Steps of one replica may overtake each other by less
  // than 64.
  uint64_t counted = ~uint64_t{0};
  friend bool operator==(const ReplicaProgress&, const ReplicaProgress&) = default;

  static constexpr int64_t kWindow = 64;  // steps that are remembered one by one
  // How many steps older than the newest one it is that was counted; negative: newer than that.
  int64_t behind(int64_t step) const { return next_step - 1 - step; }
  // Requires: behind(step) < kWindow.
  bool has(int64_t step) const { return behind(step) >= 0 && (counted >> behind(step) & 1); }
  void count(int64_t step);
};

class AggregationRule {
 public:
  struct PushVerdict {
    enum Kind : uint8_t {
      kept,     // counted; its acknowledgement follows when take() has handed it out
      waiting,  // the same gradient is here already and not yet applied: acknowledge both together
      applied,  // the same gradient was applied before: acknowledge now
      refused,  // never counts
    } kind = kept;
    std::string text = {};  // refused: why, and what to do
  };
  struct PullVerdict {
    enum Kind : uint8_t {
      newest,
      previous,  // the values before the newest update; refused if the shard has none
      wait,
      gone,
    } kind = newest;
    std::string text = {};  // gone: why
  };

  virtual ~AggregationRule() = default;
  virtual Aggregation kind() const = 0;

  // Whether push() would keep it; lets the shard check a gradient before it counts.
  virtual PushVerdict look(int32_t replica, int64_t step) const = 0;
  virtual void push(Contribution contribution) = 0;  // Requires: look() said kept.
  // Steps of the replica before `first` are over, and what has not come of them never will.
  virtual void go_on(int32_t replica, int64_t first);
  // Gives up the next update if a replica that it waits for has gone on, and says which; moves what
  // others have pushed for it into `lost`. Nothing: there is no such update.
  virtual std::optional<int32_t> skip(std::vector<Contribution>& lost);
  // Moves the gradients of the next update into `out`, in replica order; their mean is to be
  // applied. False: not yet.
  virtual bool take(std::vector<Contribution>& out) = 0;

  virtual PullVerdict pull(int32_t replica, int64_t step) const = 0;  // step -1: the newest

  virtual int compare_step(
      int64_t step) const = 0;            // a snapshot "at step": 0 now, > 0 not yet, < 0 too late
  virtual int64_t next_step() const = 0;  // of the slowest replica
  virtual std::vector<ReplicaProgress> progress()
      const = 0;                     // gradients that are held do not count
  virtual int64_t held() const = 0;  // gradients counted and not yet taken
  virtual std::vector<int32_t> missing()
      const = 0;  // replicas that an update which has begun waits for
};

// Replicas 0 .. count - 1, all at `next_step`.
std::vector<ReplicaProgress> replicas_at(int32_t count, int64_t next_step);

// `progress`: one entry per replica, ascending by replica; their next_step must agree under the
// synchronous rule. Throws: Error(invalid_argument) otherwise.
std::unique_ptr<AggregationRule> make_rule(Aggregation kind, std::vector<ReplicaProgress> progress);

}  // namespace troupe
