// Bounded staleness in a shard, and the staleness that asynchronous rules record and damp.
#include "tests/support/simulation/shard_script.hpp"

namespace troupe {
namespace {

Tensor all(float x) { return vector_of({x, x, x, x}); }
Aggregation ssp(int64_t steps) { return {Aggregation::Kind::ssp, steps}; }

TEST_CASE("a pull waits while the slowest replica is more steps behind than the bound") {
  ShardScript s = ShardScript::serving(ssp(1), 2);
  s.push(0, 0, all(1));
  CHECK(only<Pulled>(s.pull(0, 1)).version == 1);
  s.push(0, 1, all(1));
  CHECK(s.pull(0, 2).empty());
  CHECK(s.shard.waiting_for() == "w waits for the gradient of step 0 of replica 1");
  const ShardActions& out = s.push(1, 0, all(1));
  REQUIRE(out.size() == 2);
  CHECK(std::get<Pulled>(out[1].message).version == 3);
  CHECK(s.shard.waiting_for().empty());
  CHECK(only<Pulled>(s.pull(1, 1)).version == 3);  // the slow one never waits
}

TEST_CASE("a replica that goes on past its steps lets others go on") {
  ShardScript s = ShardScript::serving(ssp(0), 2);
  s.push(0, 0, all(1));
  CHECK(s.pull(0, 1).empty());
  Pull pull{.slice = 0, .replica = 1, .step = 1, .epoch = 1, .ticket = 9};
  pull.first = 1;
  s.last.clear();
  s.shard.pull(pull, 2, s.last);
  CHECK(s.last.size() == 2);
  CHECK(s.shard.counters().pulls_waiting == 0);
}

TEST_CASE("pulls that wait are looked at when the slowest replica moves, and not at each update") {
  ShardScript s = ShardScript::serving(ssp(1), 4);
  for (const int64_t step : {0, 1})
    for (const int32_t replica : {0, 1}) s.push(replica, step, all(1));
  CHECK(s.pull(0, 2).empty());
  CHECK(s.pull(0, 2).empty());  // sent again
  CHECK(s.pull(1, 2).empty());
  CHECK(s.shard.counters().pulls_waiting == 2);
  s.push(2, 0, all(1));
  CHECK(s.shard.counters().pull_looks == 0);
  CHECK(s.push(3, 0, all(1)).size() == 3);
  CHECK(s.shard.counters().pull_looks == 2);
  CHECK(s.shard.counters().pulls_waiting == 0);
}

TEST_CASE("a pull of the newest values does not wait for a bound") {
  ShardScript s = ShardScript::serving(ssp(0), 2);
  s.push(0, 0, all(1));
  CHECK(only<Pulled>(s.pull(0, -1)).version == 1);
}

TEST_CASE("the staleness of each slice is recorded") {
  ShardScript s = ShardScript::serving(Aggregation::async, 2);
  s.pull(0, 0);
  s.pull(1, 0);
  s.push(0, 0, all(1));
  s.push(1, 0, all(1));
  const Staleness& staleness = s.shard.find(0)->use().staleness;
  CHECK(staleness.updates == 2);
  CHECK(staleness.sum == 1);
  CHECK(staleness.max == 1);
}

TEST_CASE("the first gradient of a process that has taken a replica over has its staleness") {
  ShardScript s = ShardScript::serving(Aggregation::async, 2);
  s.pull(0, 0);
  s.push(1, 0, all(1));
  s.incarnation = 7;
  s.push(0, 0, all(1));
  CHECK(s.shard.find(0)->use().staleness.sum == 1);
}

TEST_CASE("a damped rule divides the rate of an update by one more than its staleness") {
  ShardScript s = ShardScript::serving({Aggregation::Kind::async, 0, true}, 2);
  s.pull(0, 0);
  s.pull(1, 0);
  s.push(0, 0, all(1));
  CHECK(same_bits(s.shard.values(0), all(-1)));
  s.push(1, 0, all(1));
  CHECK(same_bits(s.shard.values(0), all(-1.5)));
  CHECK(s.applied.back().optimizer.learning_rate == 0.5);
  s.pull(1, 1);
  s.push(1, 1, all(1));
  CHECK(same_bits(s.shard.values(0), all(-2.5)));
}

TEST_CASE("an optimizer of one learning rate takes no damped rule") {
  const Shard::Spec spec{.rule = {Aggregation::Kind::async, 0, true},
                         .replicas = replicas_at(2, 0),
                         .slices = {slice_w(0, {.kind = "ftrl", .learning_rate = 1})}};
  CHECK_THROWS_WITH_AS(Shard{spec}, doctest::Contains("is trained by ftrl"), Error);
}

}  // namespace
}  // namespace troupe
