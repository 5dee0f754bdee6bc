// ShardLedger, told by hand of the answers that clients take.
#include <doctest/doctest.h>

#include "chaos/shard_ledger.hpp"
#include "tests/support/simulation/shard_script.hpp"

namespace troupe {

TEST_CASE(
    "a later step that reads older values is found by I4, a late answer to an earlier is not") {
  sim::ShardLedger ledger(Aggregation::async, 1, 9, nullptr);
  ShardScript script = ShardScript::serving(Aggregation::async, 1);
  const auto look = [&] {
    ledger.look(script.shard);
    ledger.check();
  };
  script.shard.set_applied_log([&](const Shard::Applied& a) {
    ledger.applied(a);
    ledger.remember(a.slice, script.shard);
  });
  look();
  const Tensor before = script.shard.values(0);
  script.push(0, 0, vector_of({1, 1, 1, 1}));
  look();
  const auto read = [&](int64_t step, int64_t version) {
    ledger.taken({.slice = 0,
                  .at = {.replica = 0, .step = step},
                  .epoch = 1,
                  .version = version,
                  .values = version == 0 ? before : script.shard.values(0)});
  };
  read(1, 1);
  read(1, 0);  // asked for by attempts that were given up
  read(0, 0);
  look();
  read(2, 0);
  CHECK_THROWS_AS(look(), sim::Violation);
}

TEST_CASE("a gradient that one slice has counted is not lost when another slice has not") {
  sim::ShardLedger ledger(Aggregation::async, 1, 9, nullptr);
  ShardScript script({.rule = Aggregation::async,
                      .replicas = replicas_at(1, 0),
                      .slices = {slice_w(0), slice_w(1)}});
  for (uint32_t slice : {0, 1})
    REQUIRE(script.shard.set_initial(1, slice, vector_of({0, 0, 0, 0}), script.last));
  script.shard.set_applied_log([&](const Shard::Applied& a) {
    ledger.applied(a);
    ledger.remember(a.slice, script.shard);
  });
  const auto look = [&] {
    ledger.look(script.shard);
    ledger.check();
  };
  look();
  script.push(0, 0, vector_of({1, 1, 1, 1}));
  ledger.acknowledged(0, 0, 0);
  look();
  REQUIRE(script.shard.set_epoch(2, script.last));  // keeps the values
  look();
  CHECK(ledger.lost() == 0);
}

}  // namespace troupe
