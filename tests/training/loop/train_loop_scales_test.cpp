// Changes of the rate scale in a TrainLoop: the step at which they come, beside changes of the
// rule, and which scale holds in steps that are done again.
#include "tests/support/train_world.hpp"

namespace troupe {
namespace {

constexpr Aggregation kSsp{Aggregation::Kind::ssp, 2};

TEST_CASE("a rate scale holds from the first step that no replica has begun") {
  TrainWorld world(plan_of({0, 1}, 6, 0, false));
  world.done(0);
  CHECK(world.ask_scale(0.5) == 2);  // replica 0 runs step 1, replica 1 step 0
  world.done(0);
  CHECK(world.running == TrainWorld::Steps{{1, 0}});
  world.done(1);
  world.done(1);
  CHECK(world.changing == 2);
  world.told_terms();
  CHECK(world.shards.scale == 0.5);
  CHECK(world.running == TrainWorld::Steps{{0, 2}, {1, 2}});
  CHECK(world.told().back() == "the rate scale is 0.5 from step 2 on");
  world.settle();
}

TEST_CASE("a rule and a rate scale from one step on are one change of the shards") {
  TrainWorld world(plan_of({0}, 6, 0, false));
  world.ask_scale(0.5, 3);
  world.ask_rule(kSsp, 3);  // neither takes the place of the other
  world.ask_rule(Aggregation::async, 4);
  world.settle();
  CHECK(world.steps_of(TrainAction::change_terms) == std::vector<int64_t>{3, 4});
  CHECK(world.shards.rule == Aggregation::async);
  CHECK(world.shards.scale == 0.5);
}

TEST_CASE("the latest rate scale counts from its step on") {
  TrainWorld world(plan_of({0}, 9, 0, false));
  world.ask_scale(0.5, 2);
  world.ask_scale(0.25, 6);
  world.ask_scale(0.125, 4);
  CHECK(world.loop.terms().scales.open_changes() ==
        std::map<int64_t, double>{{2, 0.5}, {4, 0.125}});
  world.settle();
  CHECK(world.steps_of(TrainAction::change_terms) == std::vector<int64_t>{2, 4});
  CHECK(world.shards.scale == 0.125);
}

// A pause may have set another one meanwhile, which the schedule does not know.
TEST_CASE("the same rate scale again is a change") {
  TrainWorld world(plan_of({0}, 6, 0, false));
  world.ask_scale(0.5, 1);
  world.ask_scale(0.5, 3);
  world.settle();
  CHECK(world.steps_of(TrainAction::change_terms) == std::vector<int64_t>{1, 3});
}

TEST_CASE("a change comes after the pause and before the checkpoint of its step") {
  TrainLoop::Plan plan = plan_of({0, 1}, 6, 3);
  plan.pause_every = 3;
  TrainWorld world(plan);
  world.ask_scale(0.5, 3);
  world.settle();
  std::vector<TrainAction::Kind> at_3;
  for (const TrainAction& a : world.actions)
    if (a.step == 3 && a.kind != TrainAction::start && a.kind != TrainAction::tell)
      at_3.push_back(a.kind);
  CHECK(at_3 ==
        std::vector{TrainAction::pause, TrainAction::change_terms, TrainAction::checkpoint});
}

TEST_CASE("steps that are done again have the scale of the first time") {
  TrainWorld world(plan_of({0}, 8, 4));
  world.ask_scale(0.5, 2);
  world.ask_scale(0.25, 5);
  while (world.loop.done_steps() < 6)
    if (world.changing)
      world.told_terms();
    else if (world.waits_for(TrainAction::checkpoint))
      world.saved_it();
    else
      world.done(0);
  CHECK(world.shards.scale == 0.25);
  world.lose();
  world.fail(0, Errc::cancelled);
  world.wait(Millis(50));
  world.restored();  // at step 4
  CHECK(world.shards.scale == 0.5);
  world.settle();  // each start checks the scale of its step
  CHECK(world.steps_of(TrainAction::change_terms) == std::vector<int64_t>{2, 5, 5});
  CHECK(world.shards.scale == 0.25);
}

// The checkpoint of that step has the scale of before.
TEST_CASE("a change after the checkpoint of its step holds when the shards go back to it") {
  TrainWorld world(plan_of({0}, 8, 4));
  while (!world.waits_for(TrainAction::checkpoint)) world.done(0);
  CHECK(world.ask_scale(0.5) == 4);
  world.saved_it();
  CHECK(world.changing == 4);
  world.told_terms();
  world.lose();
  world.fail(0, Errc::cancelled);
  world.wait(Millis(50));
  world.restored();
  CHECK(world.loop.terms().scales.change_at(4) == 0.5);
  CHECK(world.shards.scale == 0.5);
  world.settle();
  CHECK(world.count(TrainAction::change_terms) == 1);
}

TEST_CASE("a change that fails is made again, with both terms") {
  TrainWorld world(plan_of({0}, 6, 0, false));
  world.ask_scale(0.5, 1);
  world.ask_rule(kSsp, 1);
  world.done(0);
  world.told_terms(Errc::peer_lost);
  CHECK(world.told().back() ==
        "the change of the rule at step 1: the answer; it will be made again");
  world.settle();
  CHECK(world.steps_of(TrainAction::change_terms) == std::vector<int64_t>{1, 1});
  CHECK(world.shards.scale == 0.5);
  CHECK(world.shards.rule == kSsp);
}

}  // namespace
}  // namespace troupe
