// TrainLoop when all goes well, and when a checkpoint does not: which replica runs which step, when
// all stop for a checkpoint, when training is done.

#include <numeric>

#include "tests/support/train_world.hpp"

namespace troupe {
namespace {

TEST_CASE("every replica runs every step, and training finishes when all are done") {
  TrainWorld world(plan_of({0, 1, 5}, 3, 0, false));
  CHECK(world.running == TrainWorld::Steps{{0, 0}, {1, 0}, {5, 0}});
  for (int i = 0; i < 3; ++i) world.done(0);
  CHECK(world.running.count(0) == 0);
  for (int i = 0; i < 3; ++i) world.done(5);
  for (int i = 0; i < 2; ++i) world.done(1);
  CHECK(!world.finished());
  CHECK(world.loop.done_steps() == 2);
  world.done(1);
  CHECK(world.finished());
  CHECK(world.count(TrainAction::checkpoint) == 0);
  CHECK(world.loop.done_steps() == 3);
}

TEST_CASE("the cost of an event does not grow with the replicas that wait") {
  constexpr int64_t kReplicas = 300, kSteps = 20;
  std::vector<int64_t> replicas(kReplicas);
  std::iota(replicas.begin(), replicas.end(), 0);
  TrainWorld world(plan_of(replicas, kSteps, /*every=*/5));
  world.settle();
  CHECK(world.finished());
  CHECK(world.count(TrainAction::start) == kReplicas * kSteps);
  CHECK(world.loop.looks() >= kReplicas * kSteps);  // each is started by a look
  CHECK(world.loop.looks() <= 3 * kReplicas * kSteps);
}

TEST_CASE("training of no steps finishes at once") {
  CHECK(TrainWorld(plan_of({0, 1}, 0, 0, false)).finished());
  CHECK(TrainWorld(plan_of({0, 1}, 7, 0, false), {{0, 7}, {1, 7}}).finished());
}

TEST_CASE("all replicas stop at a checkpoint's step and go on when it is taken") {
  TrainWorld world(plan_of({0, 1}, 5, 2));
  world.done(0);
  world.done(0);
  CHECK(world.running == TrainWorld::Steps{{1, 0}});  // replica 0 waits at step 2
  world.done(1);
  CHECK(!world.waits_for(TrainAction::checkpoint));
  world.done(1);
  CHECK(world.waits_for(TrainAction::checkpoint));
  CHECK(world.steps_of(TrainAction::checkpoint).back() == 2);
  world.saved_it();
  CHECK(world.running == TrainWorld::Steps{{0, 2}, {1, 2}});
  world.settle();
  CHECK(world.finished());
  CHECK(world.count(TrainAction::checkpoint) == 3);  // 2, 4, and 5, the end
  CHECK(world.steps_of(TrainAction::checkpoint).back() == 5);
}

TEST_CASE("without an interval there is one checkpoint, at the end") {
  TrainWorld world(plan_of({0, 1}, 4, 0));
  world.settle();
  CHECK(world.finished());
  CHECK(world.count(TrainAction::checkpoint) == 1);
  CHECK(world.steps_of(TrainAction::checkpoint).back() == 4);
}

TEST_CASE("training that goes on from a checkpoint takes the next one at the next multiple") {
  TrainWorld world(plan_of({0, 1}, 10, 4), {{0, 5}, {1, 5}});
  CHECK(world.running == TrainWorld::Steps{{0, 5}, {1, 5}});
  for (int i = 0; i < 3; ++i) world.done(0);
  for (int i = 0; i < 3; ++i) world.done(1);
  CHECK(world.waits_for(TrainAction::checkpoint));
  CHECK(world.steps_of(TrainAction::checkpoint).back() == 8);
}

TEST_CASE("the mean loss is that of the newest step of each replica") {
  TrainWorld world(plan_of({0, 1}, 5, 0, false));
  CHECK(world.loop.mean_loss() == 0);
  world.done(0, 3.0);
  CHECK(world.loop.mean_loss() == 3.0);
  world.done(1, 5.0);
  world.done(0, 2.0);
  CHECK(world.loop.mean_loss() == 3.5);
}

TEST_CASE("replicas go on as soon as the state is captured, while its files are written") {
  TrainWorld world(plan_of({0, 1}, 6, 2));
  for (int i = 0; i < 2; ++i) world.done(0);
  for (int i = 0; i < 2; ++i) world.done(1);
  REQUIRE(world.waits_for(TrainAction::checkpoint));
  CHECK(world.running.empty());
  world.capture();
  CHECK(world.running == TrainWorld::Steps{{0, 2}, {1, 2}});
  for (int i = 0; i < 2; ++i) world.done(0);
  for (int i = 0; i < 2; ++i) world.done(1);
  CHECK(world.running.empty());  // the next checkpoint waits for the one before
  CHECK(world.count(TrainAction::checkpoint) == 1);
  world.wait(Millis(60'000));  // and a slow disk is no lack of progress
  CHECK(!world.ended());
  world.saved_it();
  CHECK(world.saved == TrainWorld::Steps{{0, 2}, {1, 2}});
  CHECK(world.steps_of(TrainAction::checkpoint).back() == 4);
  CHECK(world.count(TrainAction::checkpoint) == 2);
  world.settle();
  CHECK(world.finished());
}

TEST_CASE("training ends when its last checkpoint is on disk, not when it is captured") {
  TrainWorld world(plan_of({0}, 2, 0));
  world.done(0);
  world.done(0);
  world.capture();
  CHECK(!world.ended());
  world.saved_it();
  CHECK(world.finished());
}

TEST_CASE("a checkpoint that the disk refuses is told, and training goes on without it") {
  TrainWorld world(plan_of({0}, 6, 2));
  for (const bool captured : {false, true}) {
    world.done(0);
    world.done(0);
    if (captured) world.capture();
    if (captured) world.done(0);
    world.saved_it(Errc::io);
    CHECK(world.told().back() ==
          detail::concat("no checkpoint of step ", captured ? 4 : 2,
                         " and none before it, and training goes on: the answer"));
    CHECK(world.running.at(0) == (captured ? 5 : 2));
  }
  world.settle();
  CHECK(world.finished());
}

TEST_CASE("of a checkpoint that fails it is said which one is kept") {
  TrainWorld world(plan_of({0}, 20, 2), {{0, 4}});  // resumed
  const auto two_steps = [&](Errc code) {
    world.done(0);
    world.done(0);
    world.saved_it(code);
  };
  two_steps(Errc::io);
  CHECK(world.told().back() ==
        "no checkpoint of step 6; that of step 4 is kept, and training goes on: the answer");
  two_steps(Errc::ok);
  two_steps(Errc::io);
  CHECK(world.told().back() ==
        "no checkpoint of step 10; that of step 8 is kept, and training goes on: the answer");
}

TEST_CASE("a checkpoint that was captured is not taken again when its files fail for a while") {
  TrainWorld world(plan_of({0}, 4, 2));
  world.done(0);
  world.done(0);
  world.capture();
  world.done(0);
  world.saved_it(Errc::timeout);
  CHECK(world.running.at(0) == 3);
  CHECK(world.count(TrainAction::checkpoint) == 1);
  world.settle();
  CHECK(world.finished());
}

TEST_CASE(
    "a last checkpoint that cannot be written is tried again; training then ends without it") {
  for (const bool captured : {false, true}) {
    TrainWorld world(plan_of({0}, 2, 0));
    world.done(0);
    world.done(0);
    if (captured) world.capture();
    const std::string why =
        "all steps are done, but the checkpoint of the last one, 2, could not be written: the "
        "answer";
    SUBCASE("for good") {
      const Millis since = world.now;
      for (int i = 0; i < 1000 && !world.ended(); ++i)
        if (!world.waits_for(TrainAction::checkpoint))
          world.wait(Millis(50));
        else if (captured)
          world.capture(), world.saved_it(Errc::io);
        else
          world.saved_it(Errc::io);
      REQUIRE(world.finished());
      CHECK(world.now - since >= Millis(10'000));
      CHECK(world.now - since <= Millis(11'000));
      CHECK(world.count(TrainAction::checkpoint) > 5);
      CHECK(world.loop.unsaved() == why);
      const auto told = world.told();
      REQUIRE(told.size() == 2);
      CHECK(told[0] ==
            why + "; it is tried again for 10 s: make room in the folder of checkpoints");
      CHECK(told[1] ==
            why + "; training ends without it; the session has the values, so save them elsewhere");
    }
    SUBCASE("until there is room") {
      for (int i = 0; i < 3; ++i) {
        world.saved_it(Errc::io);
        world.wait(Millis(1000));
        REQUIRE(world.waits_for(TrainAction::checkpoint));
      }
      world.saved_it();
      CHECK(world.finished());
      CHECK(world.told().size() == 1);
      CHECK(world.loop.unsaved().empty());
    }
    SUBCASE("not at all, if no time mends it") {
      world.saved_it(Errc::bad_data);
      CHECK(world.finished());
      CHECK(world.loop.unsaved() == why);
    }
    SUBCASE("unless shards are lost meanwhile") {
      world.saved_it(Errc::io);
      world.lose();
      world.restored();
      world.settle();
      CHECK(world.finished());
      CHECK(world.loop.unsaved().empty());
    }
    SUBCASE("unless a later attempt succeeds") {
      world.saved_it(Errc::timeout);
      world.wait(Millis(20));
      REQUIRE(world.waits_for(TrainAction::checkpoint));
      CHECK(world.count(TrainAction::checkpoint) == 2);
      world.saved_it();
      CHECK(world.finished());
    }
  }
}

TEST_CASE("answers that nobody asked for change nothing") {
  TrainWorld world(plan_of({0}, 4, 2));
  CHECK(world.loop.checkpoint_ended(Errc::ok, "", world.now).empty());
  CHECK(world.loop.restored({{0, 3}}, world.now).empty());
  CHECK(world.loop.restore_failed(Errc::bad_data, "", world.now).empty());
  world.settle();
  CHECK(world.finished());
}

TEST_CASE("training ends at the step whose data have ended, with a checkpoint of it") {
  TrainWorld world(plan_of({0, 1}, TrainLoop::kNoEnd, 5));
  for (int i = 0; i < 3; ++i) world.done(0), world.done(1);
  world.fail(0, Errc::end_of_data);
  CHECK(world.running == TrainWorld::Steps{{1, 3}});
  CHECK(world.cancels == 1);  // under the synchronous rule it waits for replica 0
  world.fail(1, Errc::cancelled);
  CHECK(world.told().empty());
  CHECK(world.waits_for(TrainAction::checkpoint));
  CHECK(world.steps_of(TrainAction::checkpoint).back() == 3);
  world.saved_it();
  CHECK(world.finished());
  CHECK(world.loop.done_steps() == 3);
}

TEST_CASE("a replica that is behind does its steps up to the end of the data") {
  TrainWorld world(plan_of({0, 1}, 100, 0, false));
  for (int i = 0; i < 3; ++i) world.done(0);
  world.done(1);
  world.fail(0, Errc::end_of_data);
  CHECK(world.cancels == 0);
  CHECK(world.running == TrainWorld::Steps{{1, 1}});
  CHECK(world.told() ==
        std::vector<std::string>{"the data end before step 3 of 100, and training ends there"});
  world.done(1);
  world.done(1);
  CHECK(world.finished());
}

TEST_CASE("the end of the data is the same after a restore and a pause") {
  TrainLoop::Plan plan = plan_of({0}, 100, 2);
  plan.pause_every = 2;
  TrainWorld world(plan);
  world.done(0), world.done(0);
  world.paused();
  world.saved_it();
  world.done(0);
  world.fail(0, Errc::end_of_data);
  world.lose();
  world.settle();
  CHECK(world.finished());
  CHECK(world.loop.done_steps() == 3);
}

TEST_CASE("training fails if its data end before the first step") {
  TrainWorld world(plan_of({0}, 100, 0, false));
  world.fail(0, Errc::end_of_data);
  CHECK(world.failed());
  CHECK(world.last().code == Errc::end_of_data);
}

}  // namespace
}  // namespace troupe
