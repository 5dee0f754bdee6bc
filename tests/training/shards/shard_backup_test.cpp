// The synchronous rule with backup replicas in a shard: late gradients, late replicas, rounds that
// fewer replicas can end.
#include "tests/support/simulation/shard_script.hpp"

namespace troupe {
namespace {

ShardScript with_backups(int64_t count, int32_t replicas) {
  return ShardScript::serving({Aggregation::Kind::sync_backup, count}, replicas);
}
Tensor all(float x) { return vector_of({x, x, x, x}); }

TEST_CASE("a step ends without its backups, with the mean of the others in replica order") {
  ShardScript s = with_backups(1, 3);
  CHECK(s.push(2, 0, all(4)).empty());
  CHECK(s.shard.waiting_for() == "w waits for the gradient of step 0 of replica 0, 1");
  REQUIRE(s.push(0, 0, all(2)).size() == 2);
  CHECK(same_bits(s.shard.values(0), all(-3)));
  REQUIRE(s.applied.size() == 1);
  CHECK(s.applied[0].from == std::vector<Shard::Applied::From>{{0, 0, 0}, {2, 0, 0}});
  CHECK(s.shard.waiting_for().empty());
}

TEST_CASE(
    "a gradient that comes after its update is late: acknowledged, counted, and not applied") {
  ShardScript s = with_backups(1, 3);
  s.push(0, 0, all(2));
  s.push(2, 0, all(4));
  CHECK(only<Acknowledged>(s.push(1, 0, all(100))).code == Errc::ok);
  CHECK(same_bits(s.shard.values(0), all(-3)));
  CHECK(s.refused(PushRefusal::late) == 1);
  // A gradient that counted is known, and one that did not is late again.
  Push again = s.make_push(0, 0, all(2));
  CHECK(only<Acknowledged>(s.push(again)).code == Errc::ok);
  CHECK(s.shard.counters().duplicate == 1);
  s.push(s.make_push(1, 0, all(100)));
  CHECK(s.refused(PushRefusal::late) == 2);
  CHECK(s.shard.version(0) == 1);
}

TEST_CASE("a late replica reads the values before, and goes on at the newest step") {
  ShardScript s = with_backups(1, 2);
  CHECK(only<Pulled>(s.pull(1, 0)).version == 0);
  s.push(0, 0, all(1));
  CHECK(only<Pulled>(s.pull(1, 0)).version == 0);
  s.push(0, 1, all(1));
  CHECK(only<Pulled>(s.pull(1, 0)).text ==
        "step 0 ended without replica 1, which was late: the shard is at step 2");
  CHECK(only<Pulled>(s.pull(1, 2)).version == 2);
  CHECK(s.pull(1, 3).empty());  // waits for a gradient of step 2
  Push newest = s.make_push(1, 2, all(1));
  newest.sequence = 0;
  REQUIRE(s.push(newest).size() == 2);
  CHECK(s.shard.version(0) == 3);
}

TEST_CASE("a step that replicas have passed ends with the gradients that are there") {
  ShardScript s = with_backups(1, 3);
  CHECK(s.push(0, 0, all(2)).empty());
  for (const int32_t replica : {1, 2}) {
    Pull pull{.slice = 0, .replica = replica, .step = 1, .epoch = 1, .ticket = 7};
    pull.first = 1;
    s.last.clear();
    s.shard.pull(pull, static_cast<uint64_t>(10 + replica), s.last);
  }
  CHECK(s.shard.version(0) == 1);
  CHECK(same_bits(s.shard.values(0), all(-2)));
  CHECK(s.shard.counters().pulls_waiting == 0);
}

TEST_CASE("a step that all replicas have passed makes no update, and the next one goes on") {
  ShardScript s = with_backups(1, 3);
  for (const int32_t replica : {0, 1}) {
    Push push = s.make_push(replica, 3, all(2));
    push.sequence = 0;
    push.first = 3;
    CHECK(s.push(push).empty());
  }
  CHECK(s.shard.version(0) == 0);
  Pull pull{.slice = 0, .replica = 2, .step = 3, .epoch = 1, .ticket = 7};
  pull.first = 3;
  s.last.clear();
  s.shard.pull(pull, 2, s.last);
  CHECK(s.last.size() == 3);
  REQUIRE(s.applied.size() == 1);
  CHECK(s.applied[0].from == std::vector<Shard::Applied::From>{{0, 3, 0}, {1, 3, 0}});
  CHECK(only<Pulled>(s.pull(0, 4)).version == 1);
}

TEST_CASE("a snapshot of a step holds it whatever was late") {
  ShardScript s = with_backups(1, 2);
  const auto captured = s.capture(1);
  s.push(0, 0, all(1));
  REQUIRE(captured->done);
  REQUIRE(captured->image.slices.size() == 1);
  CHECK(captured->image.slices[0].next_step == 1);
  for (const ReplicaProgress& p : captured->image.slices[0].progress) CHECK(p.next_step == 1);
}

}  // namespace
}  // namespace troupe
