// Shard::change_rule(): from every rule to every other one between two steps, each gradient counts
// once, and what comes too late or again never does.
#include "tests/support/simulation/shard_script.hpp"

namespace troupe {
namespace {

const std::vector<Aggregation> kRules = {Aggregation::sync,
                                         {Aggregation::Kind::sync_backup, 1},
                                         Aggregation::async,
                                         {Aggregation::Kind::ssp, 1},
                                         {Aggregation::Kind::async, 0, true}};

Tensor ones() { return vector_of({1, 1, 1, 1}); }

Outcome change(ShardScript& s, int64_t step, const Aggregation& rule, uint64_t epoch = 1) {
  s.last.clear();
  const Outcome out = s.shard.change_rule(epoch, step, rule, s.last);
  s.check_counters();
  return out;
}

// Both replicas do this step.
void step(ShardScript& s, int64_t number) {
  for (const int32_t replica : {0, 1}) s.pull(replica, number);
  for (const int32_t replica : {0, 1}) s.push(replica, number, ones());
}

TEST_CASE("a slice follows the rule of its parameter, and others that of the training") {
  ShardScript s = ShardScript::serving(aggregation_from_string("sync+w=async"), 2);
  s.push(0, 0, ones());
  CHECK(only<Acknowledged>(s.last).code == Errc::ok);
  CHECK(s.shard.version(0) == 1);
  s.push(1, 0, ones());
  CHECK(s.shard.version(0) == 2);
  REQUIRE(change(s, 1, aggregation_from_string("async+w=sync")));
  s.push(0, 1, ones());
  CHECK(s.shard.version(0) == 2);  // it waits for the other replica
  s.push(1, 1, ones());
  CHECK(s.shard.version(0) == 3);
}

TEST_CASE("every rule follows every other, and counts each gradient once") {
  for (const Aggregation& from : kRules)
    for (const Aggregation& to : kRules) {
      CAPTURE(to_string(from));
      CAPTURE(to_string(to));
      ShardScript s = ShardScript::serving(from, 2);
      step(s, 0);
      step(s, 1);
      REQUIRE(change(s, 2, to));
      REQUIRE(change(s, 2, to));  // sent again
      CHECK(s.shard.rule() == to);
      // Gradients of before come again, from replicas whose steps are over.
      const int64_t counted = s.shard.version(0);
      for (const int32_t replica : {0, 1}) {
        s.push(replica, 1, ones());
        CHECK(only<Acknowledged>(s.last).code == Errc::ok);
      }
      CHECK(s.shard.version(0) == counted);
      step(s, 2);
      step(s, 3);
      const ShardCounters c = s.shard.counters();
      const auto late = s.refused(PushRefusal::late);
      CHECK(c.applied + c.merged + late == 8);
      CHECK(c.duplicate == 2);
      CHECK(c.held == 0);
      CHECK(c.pulls_waiting == 0);
      const auto backups = [](const Aggregation& r) {
        return r.kind == Aggregation::Kind::sync_backup ? 2 : 0;
      };
      CHECK(late == backups(from) + backups(to));
    }
}

TEST_CASE("a rule is refused where it cannot hold, and the one of before goes on") {
  ShardScript s = ShardScript::serving(Aggregation::async, 2);
  step(s, 0);
  s.push(0, 1, ones());
  const auto refused = [&](const Outcome& o, Errc code, const char* text) {
    CHECK(o.code == code);
    CHECK(o.text == text);
    CHECK(s.shard.rule() == Aggregation::async);
  };
  refused(change(s, 1, Aggregation::sync), Errc::stale,
          "replica 0 is at step 2 of w, past step 1, at which the rule changes");
  refused(change(s, 2, Aggregation::sync, 2), Errc::stale,
          "a rule is for epoch 2, the shard is in epoch 1");
  refused(change(s, 2, {Aggregation::Kind::sync_backup, 2}), Errc::invalid_argument,
          "the rule sync-backup:2 leaves out 2 of 2 replicas, and an update needs one; add "
          "replicas, or leave out fewer");
  ShardActions out;
  REQUIRE(s.shard.begin_restore(2, out));
  refused(change(s, 2, Aggregation::sync, 2), Errc::stale, "the shard is restoring");
}

TEST_CASE("ftrl takes no damped rule, and no slice changes") {
  Slice sums = slice_w(1, ftrl());
  sums.parameter = "sums";
  ShardScript s({.rule = Aggregation::sync, .slices = {slice_w(), sums}});
  ShardActions out;
  for (const uint32_t id : {0, 1})
    REQUIRE(s.shard.set_initial(1, id, vector_of({0, 0, 0, 0}), out));
  CHECK(change(s, 0, {Aggregation::Kind::async, 0, true}).text ==
        "sums is trained by ftrl, whose sums hold for one learning rate, and async-damped changes "
        "it; leave out the damping, or take another optimizer");
  CHECK(s.shard.rule() == Aggregation::sync);
  CHECK(s.shard.find(0)->rule()->kind() == Aggregation::sync);
}

// A replica with backups has left its step behind, and others push nothing for that slice.
TEST_CASE("a gradient that no update has taken is refused, and a pull that waits may go on") {
  ShardScript s = ShardScript::serving({Aggregation::Kind::sync_backup, 1}, 3);
  CHECK(s.push(0, 0, ones()).empty());
  CHECK(s.pull(1, 1).empty());
  REQUIRE(change(s, 1, Aggregation::async));
  REQUIRE(s.last.size() == 2);
  const auto& acknowledged = std::get<Acknowledged>(s.last[0].message);
  CHECK(acknowledged.code == Errc::stale);
  CHECK(acknowledged.text == "the rule changed to async at step 1, before this gradient counted");
  CHECK(std::get<Pulled>(s.last[1].message).code == Errc::ok);
  CHECK(s.refused(PushRefusal::step) == 1);
  CHECK(s.shard.counters().held == 0);
  CHECK(s.shard.version(0) == 0);
}

TEST_CASE("an image after a change resumes with the rule and the steps of the change") {
  ShardScript s = ShardScript::serving(Aggregation::async, 2);
  step(s, 0);
  REQUIRE(change(s, 1, Aggregation::sync));
  const auto captured = s.capture(1);
  REQUIRE(captured->done);
  ShardScript again = ShardScript::serving(Aggregation::sync, 2);
  ShardActions out;
  REQUIRE(again.shard.begin_restore(2, out));
  REQUIRE(again.shard.restore(2, captured->image.slices, out));
  CHECK(again.shard.version(0) == 2);
  CHECK(again.push(0, 1, ones()).empty());
  CHECK(again.shard.find(0)->rule()->next_step() == 1);
}

}  // namespace
}  // namespace troupe
