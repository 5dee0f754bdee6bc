// Shard: slices of parameters, the optimizer's accumulators beside them, and the rule that turns
// pushed gradients into updates. A plain state machine without actors, clocks or sockets; a test
// drives it call by call. It appends answers to `out`, in order; the actor around it
// (shard_actor.cpp) only routes them.
//
// States: empty (pulls wait, pushes are refused) -> serving, when every slice has its initial
// values; any -> restoring by begin_restore() -> serving by restore().
// Fencing: a message of another epoch, or a push of an older incarnation of its replica, changes
// nothing and is answered with Errc::stale and a text.
// Exactly once: a gradient is identified by (replica, step, slice); a repeated one is acknowledged
// again, never applied again. Pushes of one replica, incarnation and slice are taken in the order
// of their sequence, which counts from 0 in every epoch and incarnation; up to kStepsInFlightMax
// that arrive early are parked, more are refused.
// Copy on write: values given away are never written; an update writes in place only if the shard
// alone holds them.
// Owner: its actor, or a test. Thread: one at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "training/shards/held_slice.hpp"

namespace troupe {

class Shard {
 public:
  using State = ShardState;
  using Applied = AppliedUpdate;

  struct Spec {
    uint64_t epoch = 1;
    Aggregation rule = Aggregation::sync;
    std::vector<ReplicaProgress> replicas = {
        {.replica = 0}};  // their gradients make an update; each begins at its next_step
    std::vector<Slice> slices = {};
    Lanes* lanes = nullptr;   // share large updates; null: the caller's thread makes them
    bool skips_bad = false;   // as set_skips_bad()
    ShardMemory memory = {};  // its buffers may become values, if a gradient brought them
  };
  // Empty, or serving when there are no slices. Throws: Error(invalid_argument) for a bad spec.
  explicit Shard(Spec spec);
  void set_applied_log(std::function<void(const Applied&)> log);
  void set_bad_log(std::function<void(const BadGradient&)> log);
  // Records the order of updates, or repeats one, from the next set_rule(), change_rule() or
  // restore() on. Null: neither.
  void set_order(std::unique_ptr<const ShardOrder> order);

  // Requests of a parameter group. Each is refused with Errc::stale for an epoch other than the
  // shard's; those that begin an epoch, for an earlier one.
  //
  // Gives one slice its first values; the last slice starts serving and answers the pulls that
  // waited. May be given once: repeated with the same bits before any update it does nothing,
  // otherwise it is refused.
  Outcome set_initial(uint64_t epoch, uint32_t slice, Tensor values, ShardActions& out);
  // Begins a higher epoch: all that waits is answered with Errc::stale, sequences count from 0
  // again; values, versions and steps stay. The same epoch does nothing.
  Outcome set_epoch(uint64_t epoch, ShardActions& out);
  // Refuses pushes and lets pulls wait until restore() or clear(). Otherwise as set_epoch(). The
  // present epoch is refused with Errc::stale while the shard serves.
  Outcome begin_restore(uint64_t epoch, ShardActions& out);
  // Puts back the state of all slices and serves. `states`: one for each of the shard's slices, in
  // any order (checkpoint.hpp makes them, for any layout). A replica continues at its progress in
  // the state, or, if it has none there, at the slice's next_step.
  Outcome restore(uint64_t epoch, std::vector<SliceState> states, ShardActions& out);
  // Forgets all values: the shard is empty again and waits for new initial values; replicas begin
  // at `replicas`, under this rule.
  Outcome clear(uint64_t epoch, const Aggregation& rule, std::vector<ReplicaProgress> replicas,
                ShardActions& out);
  // Sets another rule or other replicas. Refused with Errc::invalid_argument unless every replica
  // of every trained slice is at a boundary, with nothing waiting. Values and versions stay.
  Outcome set_rule(uint64_t epoch, const Aggregation& rule, std::vector<ReplicaProgress> replicas);
  // Goes on with another rule from `step` on, which all replicas have come to: each gradient before
  // it has counted, or never will. Stale if a replica is past it, or the shard does not serve;
  // refused with Errc::invalid_argument, changing nothing, for a rule that the replicas or an
  // optimizer cannot follow. Repeated before the next step it changes nothing.
  Outcome change_rule(uint64_t epoch, int64_t step, const Aggregation& rule, ShardActions& out);
  // Multiplies the learning rates of all slices by `scale`, 1 at first, in each update from here
  // on. Stale if a slice is past `step`, as for capture(); refused with Errc::invalid_argument,
  // changing nothing, for a scale that at_rate_scale() (graph/optimizer.hpp) refuses. clear() and
  // restore() leave it.
  Outcome set_rate_scale(uint64_t epoch, int64_t step, double scale);
  // Skips gradients that are not finite from here on, or refuses them. One that is skipped counts
  // as its replica's for the step: it is acknowledged once the update is made of the others, and if
  // there is no other, an update changes nothing. Either way it is refused in the counts.
  void set_skips_bad(bool skips) { terms_->skips_bad = skips; }
  // Calls `done` with the state once every slice is exactly at `step`; under the asynchronous rule
  // at once. Stale if a slice is past the step, or when the epoch changes. Requires: `done` does
  // not call the shard.
  void capture(uint64_t epoch, int64_t step, Captures::Done done);

  // Requests of workers. `from` names the sender for the answer; the same message may come any
  // number of times. A push of a newer incarnation of its replica fences the older ones of this
  // slice alone, as one replica may push its slices from several processes. Gradients of the older
  // one in an open round stay, as a step done again has the same bits. A push without a gradient
  // asks again for the answer to one that brought it: a client that gives its gradient away, so
  // that its memory may become new values, cannot send it again.
  void push(Push push, uint64_t from, ShardActions& out);
  void pull(const Pull& pull, uint64_t from, ShardActions& out);
  // True if the answer must first be made from the newest values: a copy of the slice.
  bool puts_together(const Pull& pull) const;
  // Drops all answers to this sender.
  void forget(uint64_t from);

  State state() const;
  uint64_t epoch() const;
  Aggregation rule() const;
  double rate_scale() const;
  std::vector<ReplicaProgress> replicas() const;  // each at the least progress of its trained
                                                  // slices
  ShardCounters counters() const;
  std::vector<PushRow> pushes() const;  // by slice and replica
  std::vector<Slice> slices() const;
  const HeldSlice* find(uint32_t slice) const;  // null: the shard does not have it
  int64_t version(uint32_t slice) const;        // -1 for an unknown slice
  Tensor values(uint32_t slice) const;          // undefined for an unknown or empty slice
  // "slice fc1/w waits for the gradient of replica 1 for step 12", or empty: for stall reports.
  std::string waiting_for() const;

 private:
  Outcome fence(uint64_t wanted, const char* what) const;
  Outcome set_replicas(const Aggregation& rule, std::vector<ReplicaProgress> replicas,
                       ShardActions& out);
  Outcome want_not_past(int64_t step) const;
  void serve(ShardActions& out);
  HeldSlice* held(uint32_t slice);

  std::unique_ptr<ShardTerms> terms_;  // the slices refer to it
  std::map<uint32_t, HeldSlice> slices_;
};

}  // namespace troupe
