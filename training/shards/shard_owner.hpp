// ShardOwner: whose a shard is, and which sessions train its replicas. A shard belongs to the first
// session that asks for it, until one asks that has begun a later epoch, or one that takes over
// while the owner has ended or been away for kAway.
//
// Owner: the shard's actor. Thread: the actor's.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include <caf/all.hpp>

#include "training/parameters/messages.hpp"

namespace troupe {

class ShardOwner {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  // Longer than a link is lost, shorter than a program that was started again wants to wait.
  static constexpr std::chrono::seconds kAway{10};
  // Epochs grow by one at each restore. One near the end of the numbers would leave none behind it.
  static constexpr uint64_t kEpochsAheadMax = uint64_t{1} << 32;

  // Settles whose the shard is. True: it is the asker's.
  bool ask(const CreateShard& m, const caf::actor_addr& asker, TimePoint now);
  // From now on the session trains these replicas, and no others. Where another session that has
  // not ended, nor been away for kAway, trains one of them, nothing changes, and that one is
  // returned. The owner gets its replicas in any case.
  struct Taken {
    int32_t replica = 0;
    caf::actor_addr by;
  };
  std::optional<Taken> train(const std::vector<int32_t>& replicas, const caf::actor_addr& session,
                             TimePoint now);
  // True if the end of this session, which has asked or trains, is to be told to gone().
  bool watch(const caf::actor_addr& session) { return watched_.insert(session).second; }
  // `ended`: for good; otherwise it may come back.
  void gone(const caf::actor_addr& session, bool ended, TimePoint now);

  // While there is no link to the owner.
  bool is_away() const { return away_.has_value(); }
  bool trains() const;  // the owner, while it is not away
  // A session's own container takes orders from its process alone.
  bool takes_orders_of(const caf::node_id& process) const;
  bool may_begin_epochs(const caf::actor_addr& asker) const;
  // A claim outlives its session, so that one which comes back after it was replaced is too late.
  void epoch_begun(uint64_t epoch) { claim_ = std::max(claim_, epoch + 1); }

 private:
  caf::actor_addr session_;        // the owner; none before the first one asks
  uint64_t claim_ = 0;             // CreateShard::claim of it
  std::optional<TimePoint> away_;  // since then
  bool ended_ = false;             // it is away for good
  bool alone_ = false;             // the container is the session's own
  struct Trainer {
    caf::actor_addr session;
    std::optional<TimePoint> away;  // since then
  };
  std::map<int32_t, Trainer> trained_by_;  // by replica
  std::set<caf::actor_addr> watched_;
};

}  // namespace troupe
