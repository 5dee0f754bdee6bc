// Changes of the rule in a TrainLoop: the step at which they come, what happens to one that fails
// or meets a loss, and which rule holds in steps that are done again.
#include "tests/support/train_world.hpp"

namespace troupe {
namespace {

constexpr Aggregation kSsp{Aggregation::Kind::ssp, 2};

TEST_CASE("a rule holds from the first step that no replica has begun") {
  TrainWorld world(plan_of({0, 1}, 6, 0, false));
  world.done(0);
  world.done(0);
  world.ask_rule(Aggregation::async);  // replica 0 runs step 2, replica 1 step 0
  world.done(0);
  CHECK(world.running == TrainWorld::Steps{{1, 0}});
  for (int i = 0; i < 3; ++i) world.done(1);
  CHECK(world.changing == 3);
  CHECK(world.running.empty());
  world.told_terms();
  CHECK(world.shards.rule == Aggregation::async);
  CHECK(world.running == TrainWorld::Steps{{0, 3}, {1, 3}});
  CHECK(world.told().back() == "the rule is async from step 3 on; before it was sync");
  world.settle();
}

TEST_CASE("changes come at their steps, after the pause and before the checkpoint") {
  TrainLoop::Plan plan = plan_of({0, 1}, 9, 3);
  plan.pause_every = 3;
  TrainWorld world(plan);
  world.ask_rule(kSsp, 3);
  world.ask_rule(Aggregation::async, 5);
  world.settle();
  CHECK(world.steps_of(TrainAction::change_terms) == std::vector<int64_t>{3, 5});
  std::vector<TrainAction::Kind> at_3;
  for (const TrainAction& a : world.actions)
    if (a.step == 3 && a.kind != TrainAction::start && a.kind != TrainAction::tell)
      at_3.push_back(a.kind);
  CHECK(at_3 ==
        std::vector{TrainAction::pause, TrainAction::change_terms, TrainAction::checkpoint});
  CHECK(world.shards.rule == Aggregation::async);
}

TEST_CASE("a later change takes the place of those from its step on, also while one is made") {
  TrainWorld world(plan_of({0}, 9, 0, false));
  world.ask_rule(kSsp, 2);
  world.ask_rule(Aggregation::async, 6);
  world.ask_rule(Aggregation::sync, 4);
  world.done(0);
  world.done(0);
  CHECK(world.changing == 2);
  world.ask_rule(Aggregation::async);
  CHECK(world.changing == 2);  // one after the other
  world.told_terms();          // the shards have ssp, and are told again
  CHECK(world.changing == 2);
  world.settle();
  CHECK(world.steps_of(TrainAction::change_terms) == std::vector<int64_t>{2, 2});
  CHECK(world.shards.rule == Aggregation::async);
}

TEST_CASE("a change from the last step on is none") {
  TrainWorld world(plan_of({0}, 2, 0, false));
  world.ask_rule(kSsp, 2);
  world.settle();
  CHECK(world.count(TrainAction::change_terms) == 0);
}

TEST_CASE("a change does not wait for the files of a checkpoint") {
  TrainWorld world(plan_of({0}, 6, 2));
  world.done(0);
  world.done(0);
  world.capture();  // its files are written while steps go on
  world.ask_rule(kSsp);
  world.done(0);
  CHECK(world.changing == 3);
  world.told_terms();
  CHECK(world.running == TrainWorld::Steps{{0, 3}});
  world.settle();
}

TEST_CASE("a change that fails is made again, and its error ends the training in time") {
  TrainWorld world(plan_of({0, 1}, 6, 0, false));
  world.ask_rule(Aggregation::async);
  world.done(0);
  world.done(1);
  SUBCASE("by the world") {
    world.told_terms(Errc::peer_lost);
    CHECK(world.running.empty());
    world.wait(Millis(1000));
    CHECK(world.changing == 1);
    world.settle();
    CHECK(world.count(TrainAction::change_terms) == 2);
  }
  SUBCASE("by the world, for ever") {
    for (int i = 0; i < 1000 && !world.failed(); ++i)
      if (world.changing)
        world.told_terms(Errc::timeout);
      else
        world.wait(Millis(50));
    CHECK(world.last().text ==
          "no progress for 10000 ms; the change of the rule at step 1: the answer");
  }
  SUBCASE("by the shards") {
    world.told_terms(Errc::invalid_argument);
    CHECK(world.last().text == "the change of the rule at step 1: the answer");
  }
}

TEST_CASE("shards that are lost in a change go back, and the change comes again at its step") {
  TrainWorld world(plan_of({0, 1}, 9, 2));
  world.ask_rule(kSsp, 1);
  world.ask_rule(Aggregation::async, 4);
  while (world.changing != 4) {
    if (world.changing)
      world.told_terms();
    else if (world.waits_for(TrainAction::checkpoint))
      world.saved_it();
    else
      world.done(world.running.begin()->first);
  }
  world.lose();
  CHECK(!world.waits_for(TrainAction::restore));  // the shards that live may still take it
  world.told_terms(Errc::peer_lost);
  world.wait(Millis(1000));
  SUBCASE("to a checkpoint") {
    world.restored();
    CHECK(world.shards.rule == kSsp);
    CHECK(world.running == TrainWorld::Steps{{0, 2}, {1, 2}});
  }
  SUBCASE("where only links were lost") {
    world.kept();
    CHECK(world.changing == 4);
  }
  world.settle();
  CHECK(world.steps_of(TrainAction::change_terms) == std::vector<int64_t>{1, 4, 4});
  CHECK(world.shards.rule == Aggregation::async);
}

TEST_CASE("updates are lost by a restore if a rule since its step makes others") {
  for (const bool early : {true, false}) {
    CAPTURE(early);
    TrainWorld world(plan_of({0}, 9, 4));
    if (early) world.ask_rule(Aggregation::async, 1);
    world.ask_rule(Aggregation::sync, 3);
    while (!world.waits_for(TrainAction::checkpoint)) {
      if (world.changing)
        world.told_terms();
      else
        world.done(0);
    }
    world.saved_it();
    if (!early) world.ask_rule(kSsp, 5);
    while (world.running != TrainWorld::Steps{{0, 6}}) {
      if (world.changing)
        world.told_terms();
      else
        world.done(0);
    }
    world.lose();
    world.fail(0, Errc::peer_lost);
    world.restored();
    CHECK(world.loop.lost_updates() == (early ? 0 : 2));
    world.settle();
  }
}

TEST_CASE("late replicas go on at the newest step while the shards have backups, and only then") {
  TrainWorld world(plan_of({0, 1}, 9, 0, false));
  world.ask_rule({Aggregation::Kind::sync_backup, 1}, 1);
  world.ask_rule(Aggregation::async, 3);
  world.done(0);
  world.done(1);
  world.told_terms();
  world.done(0);
  world.done(0);
  CHECK(world.running == TrainWorld::Steps{{1, 1}});
  world.running.erase(1);
  world.next[1] = 3;  // past its step 2
  world.take(world.loop.step_done(1, 1, 1, world.now));
  CHECK(world.changing == 3);
  world.told_terms();
  world.done(0);
  world.done(0);
  CHECK(world.running == TrainWorld::Steps{{0, 5}, {1, 3}});
  world.done(1);
  CHECK(world.running == TrainWorld::Steps{{0, 5}, {1, 4}});
}

TEST_CASE("a step that reads again takes all back where the order of updates is recorded") {
  const auto goes_back = [](const Aggregation& rule, bool ordered, Errc code) {
    TrainLoop::Plan plan = plan_of({0, 1}, 9, 3);
    plan.rule = rule;
    plan.ordered = ordered;
    TrainWorld world(plan);
    world.fail(0, code);
    std::string told;
    for (const std::string& text : world.told()) told += text;
    return told.find("go back to the newest checkpoint") != std::string::npos;
  };
  const Aggregation backup{Aggregation::Kind::sync_backup, 1};
  CHECK(goes_back(Aggregation::async, true, Errc::stale));
  CHECK_FALSE(goes_back(Aggregation::async, false, Errc::stale));
  CHECK_FALSE(goes_back(Aggregation::async, true, Errc::peer_lost));  // it may read the same
  CHECK_FALSE(goes_back(Aggregation::sync, true, Errc::stale));
  CHECK_FALSE(goes_back(backup, true, Errc::stale));
}

TEST_CASE("late replicas of a replay do each step") {
  TrainLoop::Plan plan = plan_of({0, 1}, 9, 0, false);
  plan.rule = {Aggregation::Kind::sync_backup, 1};
  plan.ordered = plan.repeats = true;
  TrainWorld world(plan);
  for (int step = 0; step < 3; ++step) world.done(0);
  world.done(1);
  CHECK(world.running == TrainWorld::Steps{{0, 3}, {1, 1}});
  world.next[1] = 2;
  world.fail(1, Errc::stale);  // the step was over
  CHECK(world.running == TrainWorld::Steps{{0, 3}, {1, 2}});
}

}  // namespace
}  // namespace troupe
