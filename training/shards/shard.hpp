// Shard: slices of parameters, the optimizer's accumulators beside them, and the rule that turns
// pushed gradients into updates. A plain state machine without actors, clocks or sockets; a test
// drives it call by call. It appends answers to `out`, in order; the actor around it
// (shard_actor.cpp) only routes them.
//
// States: empty (pulls wait, pushes are refused) -> serving, when every slice has its initial
// values; any -> restoring by begin_restore() -> serving by restore().
// Fencing: a message of another epoch, or of an older incarnation of its replica, changes nothing
// and is answered with Errc::stale and a text.
// Exactly once: a gradient is identified by (replica, step, slice); a repeated one is acknowledged
// again, never applied again. Pushes of one replica, incarnation and slice are taken in the order
// of their sequence, which counts from 0 in every epoch and incarnation; up to kStepsInFlightMax
// that arrive early are parked, more are refused.
// Copy on write: values given away are never written; an update writes in place only if the shard
// alone holds them.
// Owner: its actor, or a test. Thread: one at a time.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "training/parameters/layout.hpp"
#include "training/parameters/row_push.hpp"
#include "training/rules/rule.hpp"
#include "troupe/training.hpp"

namespace troupe {

class Lanes;

// One slice at one version. Tensors are shared with the shard, and frozen.
struct SliceState {
  Slice slice;
  int64_t version = 0;  // updates applied since the initial values; never goes back within an epoch
  int64_t next_step = 0;                                               // of the slowest replica
  Tensor values;                                                       // [slice.size]
  std::vector<std::pair<std::string, Tensor>> optimizer_accumulators;  // by name, each [slice.size]
  std::vector<ReplicaProgress> progress;  // by replica; empty for an untrained slice
};

// All slices of one shard, consistently at one step.
struct ShardImage {
  uint64_t epoch = 0;
  int64_t step = 0;  // as asked for
  Aggregation rule = Aggregation::sync;
  std::vector<SliceState> slices;  // by slice id
};

// Answers. `to` is the `from` that the caller of push() or pull() gave: the receiver.
struct SnapshotDone {
  uint64_t id = 0;
  Errc code = Errc::ok;
  std::string text;
  ShardImage state;  // when ok
};
struct ShardAction {
  uint64_t to = 0;
  std::variant<Pulled, Acknowledged, SnapshotDone> message;
};
using ShardActions = std::vector<ShardAction>;

// The result of an order; failures of the outside world are values, not exceptions.
struct Outcome {
  Errc code = Errc::ok;
  std::string text = {};
  explicit operator bool() const { return code == Errc::ok; }
};

// Why a push or a pull was refused.
enum class PushRefusal : uint8_t {
  epoch,        // another epoch
  incarnation,  // an older incarnation of its replica, or replaced by a newer one while it waited
  unknown,      // a slice or replica this shard does not have
  not_serving,  // empty or restoring
  type,         // another dtype or size than the slice, or a slice that is not trained
  gap,          // too far ahead in sequence
  step,         // too far ahead, or older than the remembered steps
  not_finite,   // NaN or infinity in a gradient
  full,         // too many waiting
  kCount,
};
const char* to_string(PushRefusal reason);

// After every call, received == applied + merged + duplicate + the sum of refused + held.
struct ShardCounters {
  int64_t received = 0;   // pushes
  int64_t applied = 0;    // made an update by themselves
  int64_t merged = 0;     // made an update together with other replicas' gradients
  int64_t duplicate = 0;  // repeated; acknowledged again, or together with the first
  int64_t held = 0;       // parked, or in an open round
  std::array<int64_t, static_cast<size_t>(PushRefusal::kCount)> refused = {};

  int64_t updates = 0;  // versions made
  // pulls == pulls_answered + pulls_refused + pulls_waiting
  int64_t pulls = 0, pulls_waiting = 0;
  int64_t pulls_answered = 0, pulls_unchanged = 0;  // unchanged: answered without values
  int64_t pulls_refused = 0;                        // refused, or no longer wanted
  // Versions between a replica's pull and the update by its push.
  int64_t staleness_sum = 0, staleness_max = 0;
  int64_t copies = 0;  // updates that could not be made in place
};

class Shard {
 public:
  // A replica's pushes may be this far ahead of the next one in sequence.
  static constexpr int64_t kStepsInFlightMax = 8;
  // The number of pulls that may wait; more are refused.
  static constexpr int64_t kWaitingPullsMax = 65'536;
  // The number of senders that may wait for the acknowledgement of one gradient; above it the
  // oldest is forgotten, as newer ones have replaced it.
  static constexpr size_t kTicketsMax = 8;

  enum class State : uint8_t { empty, restoring, serving };

  struct Spec {
    uint64_t epoch = 1;
    Aggregation rule = Aggregation::sync;
    std::vector<ReplicaProgress> replicas = {
        {.replica = 0}};  // their gradients make an update; each begins at its next_step
    std::vector<Slice> slices = {};
    Lanes* lanes = nullptr;             // share large updates; null: the caller's thread makes them
    const BufferOwner* pool = nullptr;  // its buffers may become values, if a gradient brought them
  };
  // Empty, or serving when there are no slices. Throws: Error(invalid_argument) for a bad spec.
  explicit Shard(Spec spec);
  Shard(Shard&&) noexcept;
  Shard& operator=(Shard&&) noexcept;
  ~Shard();

  // The gradients of an update; for invariant checkers and traces.
  struct Applied {
    uint64_t epoch = 0;
    uint32_t slice = 0;
    int64_t version = 0;  // after it
    struct From {
      int32_t replica;
      int64_t step;
      uint64_t incarnation;
      friend bool operator==(const From&, const From&) = default;
    };
    std::vector<From> from;  // in the order of the sum
  };
  void set_applied_log(std::function<void(const Applied&)> log);

  // Orders of the master. Each is refused with Errc::stale for an epoch other than the shard's.
  //
  // Gives one slice its first values; the last slice starts serving and answers the pulls that
  // waited. May be given once: repeated with the same bits before any update it does nothing,
  // otherwise it is refused.
  Outcome set_initial(uint64_t epoch, uint32_t slice, Tensor values, ShardActions& out);
  // Begins a higher epoch: all that waits is answered with Errc::stale, sequences count from 0
  // again; values, versions and steps stay. The same epoch does nothing.
  Outcome set_epoch(uint64_t epoch, ShardActions& out);
  // Refuses pushes and lets pulls wait until restore() or clear(). Otherwise as set_epoch(), but
  // allowed in the present epoch, too.
  Outcome begin_restore(uint64_t epoch, ShardActions& out);
  // Puts back the state of all slices and serves. `states`: one for each of the shard's slices, in
  // any order (checkpoint.hpp makes them, for any layout). A replica continues at its progress in
  // the state, or, if it has none there, at the slice's next_step.
  Outcome restore(uint64_t epoch, std::vector<SliceState> states, ShardActions& out);
  // Forgets all values: the shard is empty again and waits for new initial values; replicas begin
  // at `replicas`.
  Outcome clear(uint64_t epoch, std::vector<ReplicaProgress> replicas, ShardActions& out);
  // Sets another rule or other replicas. Refused with Errc::invalid_argument unless every replica
  // of every trained slice is at a boundary, with nothing waiting. Values and versions stay.
  Outcome set_rule(uint64_t epoch, Aggregation rule, std::vector<ReplicaProgress> replicas);
  // Captures the state when every slice is exactly at `step`; under the asynchronous rule at once.
  // Answers `from` with a SnapshotDone of this id: stale if a slice is past the step, or when the
  // epoch changes.
  void snapshot(uint64_t epoch, int64_t step, uint64_t id, uint64_t from, ShardActions& out);

  // Requests of workers. `from` names the sender for the answer; the same message may come any
  // number of times. A push of a newer incarnation of its replica fences the older ones of this
  // slice alone, as one replica may push its slices from several processes. Gradients of the older
  // one in an open round stay, as a step done again has the same bits. A push without a gradient
  // asks again for the answer to one that brought it: a client that gives its gradient away, so
  // that its memory may become new values, cannot send it again.
  void push(Push push, uint64_t from, ShardActions& out);
  void push(RowPush push, uint64_t from, ShardActions& out);
  void pull(const Pull& pull, uint64_t from, ShardActions& out);
  // True if the answer must first be made from the newest values: a copy of the slice.
  bool puts_together(const Pull& pull) const;
  // Drops all answers to this sender.
  void forget(uint64_t from);

  State state() const;
  uint64_t epoch() const;
  Aggregation rule() const;
  std::vector<ReplicaProgress> replicas() const;  // each at the least progress of its trained
                                                  // slices
  ShardCounters counters() const;
  std::vector<Slice> slices() const;
  int64_t version(uint32_t slice) const;  // -1 for an unknown slice
  Tensor values(uint32_t slice) const;    // undefined for an unknown or empty slice
  int64_t bytes() const;                  // values and optimizer accumulators
  // "slice fc1/w waits for the gradient of replica 1 for step 12", or empty: for stall reports.
  std::string waiting_for() const;

 private:
  struct Body;
  std::unique_ptr<Body> body_;
};

const char* to_string(Shard::State state);

}  // namespace troupe
