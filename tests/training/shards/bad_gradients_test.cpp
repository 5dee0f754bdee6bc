// Gradients that are not finite, in a shard that skips them.
#include <cmath>

#include "tests/support/simulation/shard_script.hpp"

namespace troupe {
namespace {

ShardScript skipping(const Aggregation& rule, int32_t replicas) {
  ShardScript s = ShardScript::serving(rule, replicas);
  s.shard.set_skips_bad(true);
  return s;
}
const Tensor bad = vector_of({1, INFINITY, 1, NAN});

PushCounts counts_of(const ShardScript& s, int32_t replica) {
  for (const PushRow& row : s.shard.pushes())
    if (row.replica == replica) return row.counts;
  return {};
}

TEST_CASE("sync: the update of a step is the mean of the gradients that are finite") {
  ShardScript s = skipping(Aggregation::sync, 3);
  s.push(0, 0, vector_of({1, 1, 1, 1}));
  CHECK(s.push(1, 0, bad).empty());  // acknowledged with the others
  s.push(2, 0, vector_of({3, 3, 3, 3}));
  CHECK(s.last.size() == 3);
  for (const ShardAction& action : s.last) {
    CHECK(std::get<Acknowledged>(action.message).code == Errc::ok);
    CHECK(std::get<Acknowledged>(action.message).version == 1);
  }
  CHECK(same_bits(s.shard.values(0), vector_of({-2, -2, -2, -2})));
  CHECK(s.shard.counters().merged == 2);
  CHECK(s.refused(PushRefusal::not_finite) == 1);
  CHECK(counts_of(s, 1).refused[static_cast<size_t>(PushRefusal::not_finite)] == 1);
  using Froms = std::vector<AppliedUpdate::From>;
  CHECK(s.applied.at(0).from == Froms{{0, 0, 0}, {2, 0, 0}});
  CHECK(s.applied.at(0).skipped == Froms{{1, 0, 0}});
}

TEST_CASE("a skipped gradient that comes again is acknowledged again, and counts once") {
  for (const Aggregation& rule : {Aggregation::sync, Aggregation::async}) {
    ShardScript s = skipping(rule, 1);
    CHECK(only<Acknowledged>(s.push(0, 0, bad)).version == 1);
    CHECK(only<Acknowledged>(s.push(0, 0, bad)).code == Errc::ok);
    CHECK(s.refused(PushRefusal::not_finite) == 1);
    CHECK(s.shard.counters().duplicate == 1);
    CHECK(s.shard.version(0) == 1);
  }
}

TEST_CASE("an update without a gradient keeps values, and the step before can read them again") {
  ShardScript s = skipping(Aggregation::sync, 2);
  s.push(0, 0, vector_of({1, 1, 1, 1}));
  s.push(1, 0, vector_of({1, 1, 1, 1}));
  const Tensor first = vector_of({-1, -1, -1, -1});
  s.push(0, 1, bad);
  s.push(1, 1, bad);
  CHECK(s.shard.version(0) == 2);
  CHECK(same_bits(s.shard.values(0), first));
  const Pulled before = only<Pulled>(s.pull(0, 1));
  CHECK(before.version == 1);
  CHECK(same_bits(before.values, first));
  s.push(0, 2, vector_of({1, 1, 1, 1}));
  s.push(1, 2, vector_of({1, 1, 1, 1}));
  CHECK(same_bits(only<Pulled>(s.pull(0, 2)).values, first));
  CHECK(same_bits(s.shard.values(0), vector_of({-2, -2, -2, -2})));
  CHECK(same_bits(before.values, first));
}

TEST_CASE("gradients by rows are skipped as a whole") {
  ShardScript s = skipping(Aggregation::sync, 2);
  s.push(0, 0, rows_of(2, {0, 1}, {1, 1, 1, NAN}));
  s.push(1, 0, rows_of(2, {1}, {2, 2}));
  CHECK(same_bits(s.shard.values(0), vector_of({0, 0, -2, -2})));
}

TEST_CASE("with backups a gradient that is not finite ends its replica's part of the step") {
  ShardScript s = skipping({Aggregation::Kind::sync_backup, 1}, 2);
  CHECK(only<Acknowledged>(s.push(0, 0, bad)).version == 1);
  CHECK(only<Acknowledged>(s.push(1, 0, vector_of({1, 1, 1, 1}))).code == Errc::ok);
  CHECK(s.refused(PushRefusal::late) == 1);
  CHECK(same_bits(s.shard.values(0), vector_of({0, 0, 0, 0})));
}

TEST_CASE("the log of skipped gradients names parameter, replica, step and element") {
  ShardScript s = skipping(Aggregation::async, 2);
  std::vector<BadGradient> told;
  s.shard.set_bad_log([&](const BadGradient& gradient) { told.push_back(gradient); });
  s.push(1, 7, vector_of({1, 1, 1, 1}));  // parked
  s.push(1, 0, vector_of({1, 1, 1, 1}));
  Push p = s.make_push(1, 1, bad);
  s.push(p, 55);
  s.push(p, 55);
  REQUIRE(told.size() == 1);
  CHECK(told[0].parameter == "w");
  CHECK(told[0].replica == 1);
  CHECK(told[0].step == 1);
  CHECK(told[0].element == "element 1 is inf of w");
  CHECK(told[0].from == 55);
}

TEST_CASE("gradients are refused again once a shard skips them no more") {
  ShardScript s = skipping(Aggregation::async, 1);
  s.push(0, 0, bad);
  s.shard.set_skips_bad(false);
  CHECK(only<Acknowledged>(s.push(0, 1, bad)).code == Errc::bad_data);
  CHECK(s.shard.version(0) == 1);
}

}  // namespace
}  // namespace troupe
