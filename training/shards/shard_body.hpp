// The inside of Shard: its state, and the functions its source files share. shard.cpp has the
// master's orders, shard_traffic.cpp pushes, pulls and their answers, shard_writes.cpp written
// values.
// Owner: Shard. Thread: that of Shard's caller.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "training/shards/shard.hpp"
#include "training/rules/update.hpp"

namespace troupe {

struct Shard::Body {
  struct Ticket {
    uint64_t to = 0, ticket = 0;
    friend bool operator==(const Ticket&, const Ticket&) = default;
  };
  struct Parked {
    RowPush push;
    std::vector<Ticket> tickets;
  };
  struct Sequence {  // of one replica's pushes of one slice
    // The newest that pushed. A replica may push its slices from several processes.
    uint64_t incarnation = 0;
    int64_t next = 0;
    std::map<int64_t, Parked> parked;
    int64_t pulled_version = -1;
    int64_t first = 0;  // earlier steps are over, and not done again
  };
  struct WaitingPull {
    Pull pull;
    uint64_t to = 0;
  };
  // Writes to an untrained slice. Under the synchronous rule a step that is done again reads the
  // same values as the first time, and its writes count once.
  struct Written {
    int64_t begins = 0;    // writes of earlier steps are in the values
    int64_t step = -1;     // the newest that wrote
    int32_t replica = -1;  // its replica
    std::map<std::pair<int32_t, int64_t>, ReplicaProgress> done = {};  // by replica and number
    // The values before the writes of `step`: whole, or as rows to put back, last to first.
    int64_t before_version = 0;
    Tensor before = {};
    std::vector<Tensor> undo = {};
  };
  struct Held {  // one slice
    Slice slice;
    SliceValues state;
    std::unique_ptr<AggregationRule> rule;  // null: untrained
    std::map<int32_t, Sequence> sequences;  // by replica
    // By replica and step, of the gradients that the rule holds.
    std::map<std::pair<int32_t, int64_t>, std::vector<Ticket>> unacknowledged;
    std::vector<WaitingPull> pulls;
    Written written;

    Sequence& sequence(int32_t replica) { return sequences[replica]; }
  };
  struct PendingSnapshot {
    uint64_t id = 0, to = 0;
    int64_t step = 0;
    std::map<uint32_t, SliceState> captured;
  };

  uint64_t epoch = 1;
  State state = State::empty;
  Aggregation kind = Aggregation::sync;
  std::map<uint32_t, Held> slices;
  std::set<int32_t> replica_numbers;  // their gradients make an update
  std::vector<PendingSnapshot> snapshots;
  int64_t waiting_pulls = 0;
  ShardCounters counters;
  std::function<void(const Applied&)> applied_log;
  Lanes* lanes = nullptr;
  const BufferOwner* pool = nullptr;

  // shard.cpp
  Outcome fence(uint64_t wanted, const char* what) const;
  void set_replicas(const std::vector<ReplicaProgress>& replicas);  // Throws: Error, as make_rule()
  void drop_waiting(const std::string& why, ShardActions& out);
  void serve(ShardActions& out);
  void renew(Held& held, int32_t replica, uint64_t incarnation, ShardActions& out);
  void refuse_parked(Held& held, int32_t replica, PushRefusal reason, const std::string& why,
                     ShardActions& out);
  SliceState image(const Held& held) const;
  void finish_snapshots(ShardActions& out);
  void capture(const Held& held);
  int64_t held_gradients() const;

  // shard_traffic.cpp
  void push(RowPush&& push, uint64_t from, ShardActions& out);
  void ask_again(Held& held, const Push& push, const Ticket& ticket, ShardActions& out);
  void accept(Held& held, RowPush&& push, std::vector<Ticket> tickets, ShardActions& out);
  // Answers now or later, unless the rule would keep this gradient; then returns false.
  bool known(Held& held, const Push& push, const std::vector<Ticket>& tickets, ShardActions& out);
  void go_on(Held& held, int32_t replica, int64_t first, ShardActions& out);
  bool skip(Held& held, ShardActions& out);  // gives up an update that cannot be made; false: there
                                             // is none
  void settle(Held& held, ShardActions& out);
  void update(Held& held, std::vector<Contribution>& gradients, ShardActions& out);
  void let_previous_go(Held& held);
  void pull(const Pull& pull, uint64_t from, ShardActions& out);
  bool puts_together(const Pull& pull) const;
  AggregationRule::PullVerdict verdict(const Held& held, const Pull& pull) const;
  bool answer(Held& held, const Pull& pull, uint64_t from, ShardActions& out);  // false: it waits
  void note_read(Held& held, const Pull& pull, const Pulled& answer) const;
  void answer_waiting(Held& held, ShardActions& out);
  void refuse(const Push& push, const std::vector<Ticket>& tickets, PushRefusal reason, Errc code,
              const std::string& text, ShardActions& out);
  void refuse(const Pull& pull, uint64_t to, Errc code, const std::string& text, ShardActions& out);
  static void add_ticket(std::vector<Ticket>& tickets, Ticket ticket);

  // shard_writes.cpp
  void write(Held& held, const Push& push, const std::vector<Ticket>& tickets, ShardActions& out);
  AggregationRule::PullVerdict pull_written(const Held& held, int32_t replica, int64_t step) const;
  void keep_before(Held& held, const Push& push) const;
  static const Tensor& before_writes(Held& held);  // Requires: values from before were kept.
};

}  // namespace troupe
