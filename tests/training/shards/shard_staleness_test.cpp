// Bounded staleness in a shard.
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

TEST_CASE("a pull of the newest values does not wait for a bound") {
  ShardScript s = ShardScript::serving(ssp(0), 2);
  s.push(0, 0, all(1));
  CHECK(only<Pulled>(s.pull(0, -1)).version == 1);
}

}  // namespace
}  // namespace troupe
