// The rules by which a shard changes hands.
#include "training/shards/shard_owner.hpp"

#include <algorithm>

namespace troupe {

bool ShardOwner::ask(const CreateShard& m, const caf::actor_addr& asker, TimePoint now) {
  const bool first = !session_;
  if (first) alone_ = m.session != 0 && m.container == own_container(m.session);
  const bool free = away_ && (ended_ || now - *away_ >= kAway);
  const bool later = m.claim > claim_ && m.claim - claim_ <= kEpochsAheadMax;
  const bool better = later || (m.takes_over && free);
  if (first || (better && takes_orders_of(asker.node()))) {
    session_ = asker;
    if (later) claim_ = m.claim;
  }
  if (asker != session_) return false;
  away_.reset();
  ended_ = false;
  return true;
}

std::optional<ShardOwner::Taken> ShardOwner::train(const std::vector<int32_t>& replicas,
                                                   const caf::actor_addr& session, TimePoint now) {
  for (const int32_t replica : replicas) {
    const auto at = trained_by_.find(replica);
    if (session == session_ || at == trained_by_.end() || at->second.session == session) continue;
    if (!at->second.away || now - *at->second.away < kAway)
      return Taken{replica, at->second.session};
  }
  std::erase_if(trained_by_, [&](const auto& one) { return one.second.session == session; });
  for (const int32_t replica : replicas) trained_by_[replica] = {session, {}};
  return std::nullopt;
}

void ShardOwner::gone(const caf::actor_addr& session, bool ended, TimePoint now) {
  watched_.erase(session);
  if (ended)
    std::erase_if(trained_by_, [&](const auto& one) { return one.second.session == session; });
  for (auto& [replica, trainer] : trained_by_)
    if (trainer.session == session) trainer.away = now;
  if (session != session_) return;
  away_ = now;
  ended_ = ended;
}

bool ShardOwner::trains() const {
  return !away_ && std::any_of(trained_by_.begin(), trained_by_.end(),
                               [this](const auto& one) { return one.second.session == session_; });
}

bool ShardOwner::takes_orders_of(const caf::node_id& process) const {
  return !alone_ || process == session_.node();
}

bool ShardOwner::may_begin_epochs(const caf::actor_addr& asker) const {
  return !session_ || asker == session_;
}

}  // namespace troupe
