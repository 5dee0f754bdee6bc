// HeldSlice: one slice of a shard: its values, the rule that turns pushes into updates, and the
// pushes and pulls that wait. It takes the pushes of a replica in the order of their sequence, each
// once, and answers all senders of it.
// Owner: Shard. Thread: that of Shard's caller.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "training/parameters/local_shard.hpp"
#include "training/parameters/outcome.hpp"
#include "training/parameters/shard_image.hpp"
#include "training/rules/update.hpp"
#include "training/shards/captures.hpp"
#include "training/shards/push_ledger.hpp"
#include "training/shards/push_order.hpp"
#include "training/shards/shard_counters.hpp"
#include "training/shards/shard_order.hpp"
#include "training/shards/slice_readers.hpp"
#include "training/shards/travelling.hpp"
#include "training/shards/waiting_pulls.hpp"
#include "training/shards/written_values.hpp"

namespace troupe {

class Lanes;

// An update, with all that makes it again; for invariant checkers.
struct AppliedUpdate {
  uint64_t epoch = 0;
  uint32_t slice = 0;
  int64_t version = 0;  // after it
  int64_t steps = 1;    // that it is of
  struct From {
    int32_t replica;
    int64_t step;
    uint64_t incarnation;
    friend bool operator==(const From&, const From&) = default;
  };
  std::vector<From> from;                // in the order of the sum
  std::vector<From> skipped = {};        // not finite; they have changed nothing
  std::vector<Gradient> gradients = {};  // of `from`; copies, as an update may take their memory
  Optimizer optimizer = {};              // at the rate scale
  Aggregation rule = {};                 // that made it
};

// A gradient that is not finite, and is skipped.
struct BadGradient {
  std::string parameter;
  int32_t replica = 0;
  int64_t step = 0;
  std::string element;  // "element 3 is nan of w"
  uint64_t from = 0;    // the sender; 0: it has gone
  int64_t count = 0;    // of the replica's in this shard, this one included
};

enum class ShardState : uint8_t { empty, restoring, serving };
const char* to_string(ShardState state);

// The state that all slices of a shard share.
struct ShardTerms {
  uint64_t epoch = 1;
  ShardState state = ShardState::empty;
  Aggregation rule = Aggregation::sync;
  double rate_scale = 1;            // of all learning rates
  std::set<int32_t> replicas = {};  // their gradients make an update
  Lanes* lanes = nullptr;
  ShardMemory memory = {};
  bool skips_bad = false;  // gradients that are not finite; else they are refused
  std::function<void(const AppliedUpdate&)> applied_log = {};
  std::function<void(const BadGradient&)> bad_log = {};
  std::map<int32_t, int64_t> skipped = {};     // gradients, by replica
  std::map<uint32_t, PushLedger> pushes = {};  // by slice
  ShardCounters counters = {};                 // of pushes: those for slices that are not here
  Captures captures = {};
  std::unique_ptr<const ShardOrder> order = nullptr;  // null: none is recorded or repeated

  // Throws: as troupe::make_rule().
  std::unique_ptr<AggregationRule> make_rule(const Aggregation& rule, const Slice& slice,
                                             std::vector<ReplicaProgress> progress) const {
    auto made = troupe::make_rule(rule, std::move(progress));
    return order ? order->of(slice, std::move(made)) : std::move(made);
  }
};

class HeldSlice {
 public:
  // The number of pulls of a shard that may wait; more are refused.
  static constexpr int64_t kWaitingPullsMax = 65'536;

  // `terms` live longer. Throws: Error(invalid_argument) for a slice that no shard can hold.
  HeldSlice(ShardTerms& terms, Slice slice);

  // The state before the first values, or before others are read: there may be no memory for both.
  void clear(int64_t next_step);
  Outcome set_initial(Tensor values);
  // The values and the rule of a restored state, or why it does not fit; adopt() puts them in.
  struct Restored {
    SliceValues values;
    std::unique_ptr<AggregationRule> rule;  // null: untrained
    int64_t next_step = 0;
  };
  Outcome check(SliceState&& state, Restored& out) const;
  void adopt(Restored restored);
  // Takes another rule. Refuses the gradients that the one before holds, and lets pulls go that
  // the new one does not.
  void set_rule(std::unique_ptr<AggregationRule> rule, ShardActions& out);
  // Makes the updates from here on. Requires: the kind of the slice's optimizer.
  void set_optimizer(Optimizer optimizer) { optimizer_ = std::move(optimizer); }
  // Answers all requests that wait with `why`, refuses the gradients that the rule holds, and
  // resets the sequences to 0.
  void drop_waiting(const std::string& why, ShardActions& out);
  void answer_waiting(ShardActions& out);
  void forget(uint64_t from);

  // Requires of both: the request is of the shard's epoch and of one of its replicas, or a pull of
  // the newest values.
  void push(Push&& push, uint64_t from, ShardActions& out);
  void pull(const Pull& pull, uint64_t from, ShardActions& out);
  // True if the answer must first be made from the newest values. Requires: as pull().
  bool puts_together(const Pull& pull) const;
  void count_pushed(int64_t bytes) { use_.pushed_bytes += bytes; }

  const Slice& slice() const { return slice_; }
  const SliceValues& values() const { return values_; }
  const AggregationRule* rule() const { return rule_.get(); }  // null: untrained
  Aggregation aggregation() const {
    return rule_ ? rule_->kind() : terms_.rule.of(slice_.parameter);
  }
  int compare_step(int64_t step) const { return rule_ ? rule_->compare_step(step) : 0; }
  SliceState image() const;
  bool between_steps() const;      // nothing waits
  int64_t held_gradients() const;  // parked, or in an open round
  int64_t held_gradients(int32_t replica) const;
  const SliceUse& use() const { return use_; }

 private:
  void acknowledge(const Tickets& tickets, Errc code, const std::string& text, ShardActions& out);
  void refuse(int32_t replica, const Tickets& tickets, PushRefusal reason, Errc code,
              const std::string& text, ShardActions& out);
  void refuse(const Pull& pull, uint64_t to, Errc code, const std::string& text, ShardActions& out);
  void refuse(const std::vector<PushOrder::Refused>& refused, ShardActions& out);

  void ask_again(const Push& push, const Ticket& ticket, ShardActions& out);
  void accept(Push&& push, Tickets tickets, ShardActions& out);
  // Answers now or later, unless the rule would keep this gradient; then returns false.
  bool known(const Push& push, const Tickets& tickets, ShardActions& out);
  void write(const Push& push, const Tickets& tickets, ShardActions& out);
  // The replica pushes nothing more for steps before `first`: answers requests that wait for such a
  // push.
  void end_steps_before(int64_t first, int32_t replica, ShardActions& out);
  // Gives up an update that cannot be made; false: there is none.
  bool skip(ShardActions& out);
  // `open`: AggregationRule::open_to() as of the last answer to the pulls that wait.
  void update_while_due(int64_t open, ShardActions& out);
  void update(std::vector<Contribution>& gradients, ShardActions& out);
  void free_previous();
  AggregationRule::PullVerdict verdict(const Pull& pull) const;
  bool answer(const Pull& pull, uint64_t from, ShardActions& out);  // false: it waits
  void note_read(const Pull& pull, const Pulled& answer);

  ShardTerms& terms_;
  Slice slice_;
  std::optional<Optimizer> optimizer_;  // the slice's, at the shard's rate scale
  SliceValues values_;
  TravellingValues travelling_;
  std::unique_ptr<AggregationRule> rule_;  // null: untrained
  WrittenValues written_;                  // untrained
  PushOrder order_;
  SliceReaders readers_;
  // By replica and step, of the gradients that the rule holds.
  std::map<std::pair<int32_t, int64_t>, Tickets> unacknowledged_;
  WaitingPulls pulls_;
  SliceUse use_;
  PushLedger& pushes_;
};

}  // namespace troupe
