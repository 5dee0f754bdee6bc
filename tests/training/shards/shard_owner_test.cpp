// ShardOwner, by the clock of a test.
#include <doctest/doctest.h>

#include "actors/cluster/process.hpp"
#include "training/shards/shard_owner.hpp"

namespace troupe {

TEST_CASE("a session that is away keeps its replicas for as long as an owner its container") {
  Process process("/job:local/task:0", {});
  {
    caf::scoped_actor one(process.system()), two(process.system()), three(process.system());
    const caf::actor_addr owner = one->address(), away = two->address(), other = three->address();
    const ShardOwner::TimePoint begin{};
    ShardOwner shard;
    CHECK(shard.ask({}, owner, begin));
    CHECK(!shard.ask({}, other, begin));
    CHECK(!shard.trains());
    CHECK(!shard.train({0}, owner, begin));
    CHECK(shard.trains());
    CHECK(!shard.train({1}, away, begin));

    shard.gone(away, /*ended=*/false, begin);
    const auto soon = begin + ShardOwner::kAway - std::chrono::milliseconds(1);
    REQUIRE(shard.train({1}, other, soon));
    CHECK(shard.train({1}, other, soon)->by == away);
    CHECK(!shard.train({1}, away, soon));  // it is back, and away no more
    REQUIRE(shard.train({1}, other, begin + ShardOwner::kAway));
    shard.gone(away, /*ended=*/false, begin);
    CHECK(!shard.train({1}, other, begin + ShardOwner::kAway));
    CHECK(shard.train({1}, away, begin + ShardOwner::kAway)->replica == 1);
    shard.gone(other, /*ended=*/true, begin);
    CHECK(!shard.train({1}, away, begin));

    CHECK(!shard.train({0, 1}, owner, begin));  // the owner gets its replicas
    CHECK(shard.train({1}, away, begin)->by == owner);
    shard.gone(owner, /*ended=*/false, begin);
    CHECK(!shard.trains());
    CHECK(shard.train({0}, other, soon)->by == owner);
    CHECK(!shard.ask({.takes_over = true}, other, soon));
    CHECK(shard.ask({.takes_over = true}, other, begin + ShardOwner::kAway));
    CHECK(!shard.train({0, 1}, other, begin + ShardOwner::kAway));
  }
  process.stop();
}

}  // namespace troupe
