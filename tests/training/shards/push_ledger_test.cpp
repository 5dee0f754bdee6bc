// The ledger of a slice's pushes: by replica, each push is in one count, or held.
#include <map>

#include "tests/support/simulation/shard_script.hpp"

namespace troupe {
namespace {

std::map<int32_t, PushRow> rows(const ShardScript& s) {
  std::map<int32_t, PushRow> out;
  for (const PushRow& row : s.shard.pushes())
    if (row.slice == 0) out[row.replica] = row;
  return out;
}
int64_t refused(const PushRow& row, PushRefusal reason) {
  return row.counts.refused[static_cast<size_t>(reason)];
}

TEST_CASE("a push counts for its replica: held in an open round, then merged, and a copy of it") {
  ShardScript s = ShardScript::serving(Aggregation::sync, 2);
  s.push(1, 0, vector_of({1, 1, 1, 1}));
  CHECK(rows(s).at(1).held == 1);
  CHECK(rows(s).count(0) == 0);  // nothing has come of it
  s.push(0, 0, vector_of({1, 1, 1, 1}));
  s.push(0, 0, vector_of({1, 1, 1, 1}));
  CHECK(rows(s).at(0).counts.merged == 1);
  CHECK(rows(s).at(0).counts.duplicate == 1);
  CHECK(rows(s).at(1).counts.merged == 1);
  CHECK(rows(s).at(1).counts.received == 1);
  CHECK(rows(s).at(1).held == 0);
}

TEST_CASE("a refused push counts for its replica by the reason, also when it was parked") {
  ShardScript s = ShardScript::serving(Aggregation::async, 2);
  s.push(0, 0, vector_of({1, 1, 1, NAN}));
  s.push(1, 2, vector_of({1, 1, 1, 1}));  // waits for sequences 0 and 1
  CHECK(refused(rows(s).at(0), PushRefusal::not_finite) == 1);
  CHECK(rows(s).at(1).held == 1);
  s.incarnation = 1;
  s.push(1, 0, vector_of({1, 1, 1, 1}));
  CHECK(refused(rows(s).at(1), PushRefusal::incarnation) == 1);
  CHECK(rows(s).at(1).counts.applied == 1);
  CHECK(rows(s).at(0).counts.applied == 0);
}

TEST_CASE("a late gradient counts as late for its replica") {
  ShardScript s = ShardScript::serving({Aggregation::Kind::sync_backup, 1}, 2);
  s.push(1, 0, vector_of({1, 1, 1, 1}));
  s.push(0, 0, vector_of({1, 1, 1, 1}));
  CHECK(rows(s).at(1).counts.applied == 1);
  CHECK(refused(rows(s).at(0), PushRefusal::late) == 1);
}

TEST_CASE("a new epoch ends the pushes that wait, and the counts of before stay") {
  ShardScript s = ShardScript::serving(Aggregation::sync, 2);
  s.push(1, 0, vector_of({1, 1, 1, 1}));
  ShardActions out;
  CHECK(s.shard.set_epoch(2, out));
  CHECK(rows(s).at(1).held == 0);
  CHECK(refused(rows(s).at(1), PushRefusal::epoch) == 1);
  s.check_counters();
}

TEST_CASE("pushes of replicas that the shard does not have share a row, and no row outlives one") {
  ShardScript s = ShardScript::serving(Aggregation::async, 3);
  for (int32_t replica = 0; replica < 3; ++replica) s.push(replica, 0, vector_of({1, 1, 1, 1}));
  for (int32_t stranger = 7; stranger < 20; ++stranger)
    s.push(stranger, 0, vector_of({1, 1, 1, 1}));
  CHECK(rows(s).size() == 4);
  CHECK(refused(rows(s).at(PushLedger::kOthers), PushRefusal::unknown) == 13);
  CHECK(s.shard.set_rule(1, Aggregation::async, replicas_at(1, 1)));
  CHECK(rows(s).size() == 2);
  CHECK(rows(s).at(PushLedger::kOthers).counts.applied == 2);
  CHECK(s.shard.counters().applied == 3);
  s.check_counters();
}

TEST_CASE("a push for a slice that the shard does not have counts in the shard's sum alone") {
  ShardScript s = ShardScript::serving(Aggregation::async, 1);
  Push p = s.make_push(0, 0, vector_of({1, 1, 1, 1}));
  p.slice = 5;
  s.push(p);
  CHECK(rows(s).empty());
  CHECK(s.shard.pushes().at(0).slice == PushRow::kNoSlice);
  CHECK(s.refused(PushRefusal::unknown) == 1);
  CHECK(s.shard.counters().received == 1);
}

}  // namespace
}  // namespace troupe
