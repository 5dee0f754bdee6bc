// TrainLoop and pauses: when all replicas stop to be looked at, how a pause ends training, and what
// becomes of one that fails or is under way when shards are lost.

#include "tests/support/train_world.hpp"

namespace troupe {
namespace {

TrainLoop::Plan pausing(std::vector<int64_t> replicas, int64_t steps, int64_t pause_every,
                        int64_t checkpoint_every = 0, bool checkpoints = false) {
  TrainLoop::Plan plan = plan_of(std::move(replicas), steps, checkpoint_every, checkpoints);
  plan.pause_every = pause_every;
  return plan;
}

TEST_CASE("all replicas stop at a pause's step and go on when it has ended") {
  TrainWorld world(pausing({0, 1}, 5, 2));
  world.done(0);
  world.done(0);
  CHECK(world.running == TrainWorld::Steps{{1, 0}});  // replica 0 waits at step 2
  world.done(1);
  CHECK(!world.waits_for(TrainAction::pause));
  world.done(1);
  CHECK(world.waits_for(TrainAction::pause));
  CHECK(world.running.empty());
  world.paused();
  CHECK(world.running == TrainWorld::Steps{{0, 2}, {1, 2}});
  world.settle();
  CHECK(world.finished());
  CHECK(world.steps_of(TrainAction::pause) ==
        std::vector<int64_t>{2, 4});  // 5, the end, is no multiple
}

TEST_CASE(
    "a pause comes before the checkpoint of its step, and after the files of the one before") {
  TrainWorld world(pausing({0}, 8, 2, 3, true));
  for (int i = 0; i < 2; ++i) world.done(0);
  CHECK(world.waits_for(TrainAction::pause));
  world.paused();
  world.done(0);
  CHECK(world.waits_for(TrainAction::checkpoint));  // of step 3
  world.capture();
  world.done(0);
  CHECK(!world.waits_for(TrainAction::pause));  // step 4 waits for the files
  world.saved_it();
  CHECK(world.waits_for(TrainAction::pause));
  world.paused();
  for (int i = 0; i < 2; ++i) world.done(0);
  CHECK(world.waits_for(TrainAction::pause));  // both are due at step 6
  CHECK(!world.waits_for(TrainAction::checkpoint));
  world.paused();
  CHECK(world.waits_for(TrainAction::checkpoint));
  world.settle();
  CHECK(world.finished());
  CHECK(world.steps_of(TrainAction::pause) == std::vector<int64_t>{2, 4, 6, 8});
  CHECK(world.count(TrainAction::checkpoint) == 3);  // 3, 6, and 8, the end
}

TEST_CASE("a pause may end training, with a checkpoint of its step") {
  for (const bool checkpoints : {false, true}) {
    TrainWorld world(pausing({0, 1}, 100, 3, 50, checkpoints));
    while (!world.waits_for(TrainAction::pause)) world.done(world.running.begin()->first);
    world.paused(false);
    CHECK(world.running.empty());
    CHECK(world.waits_for(TrainAction::checkpoint) == checkpoints);
    world.settle();
    CHECK(world.finished());
    CHECK(world.loop.done_steps() == 3);
    CHECK(world.count(TrainAction::checkpoint) == (checkpoints ? 1 : 0));
    if (checkpoints) CHECK(world.steps_of(TrainAction::checkpoint).back() == 3);
  }
}

TEST_CASE("shards that are lost in a pause are restored when it has answered, and it comes again") {
  TrainWorld world(pausing({0}, 6, 2, 1, true));
  for (int i = 0; i < 2; ++i) {
    world.done(0);
    if (world.waits_for(TrainAction::checkpoint)) world.saved_it();
  }
  REQUIRE(world.waits_for(TrainAction::pause));
  world.lose();
  CHECK(!world.waits_for(TrainAction::restore));
  SUBCASE("whatever it says") {
    world.paused(false);
    CHECK(world.waits_for(TrainAction::restore));
    world.restored();
    CHECK(world.running == TrainWorld::Steps{{0, 1}});
    world.settle();
    CHECK(world.loop.done_steps() == 6);
  }
  SUBCASE("with an error of the loss") {
    world.pause_failed(Errc::peer_lost);
    CHECK(world.waits_for(TrainAction::restore));
    world.settle();
  }
  CHECK(world.finished());
  CHECK(world.steps_of(TrainAction::pause) == std::vector<int64_t>{2, 2, 4, 6});
}

TEST_CASE("a training that was to end is done to that step again when its shards are lost") {
  TrainWorld world(pausing({0, 1}, 100, 4, 0, true));
  while (!world.waits_for(TrainAction::pause)) world.done(world.running.begin()->first);
  world.paused(false);
  REQUIRE(world.waits_for(TrainAction::checkpoint));
  world.lose();
  world.saved_it(Errc::peer_lost);
  world.restored();
  CHECK(world.loop.done_steps() == 0);
  while (!world.waits_for(TrainAction::pause)) world.done(world.running.begin()->first);
  SUBCASE("and says so again") {
    world.paused(false);
    world.settle();
    CHECK(world.loop.done_steps() == 4);
  }
  SUBCASE("and goes on if the program has changed its mind") {
    world.paused(true);
    world.settle();
    CHECK(world.loop.done_steps() == 100);
  }
  CHECK(world.finished());
}

TEST_CASE("a pause that met the world's failure is tried again, later each time") {
  TrainWorld world(pausing({0}, 4, 2));
  for (int i = 0; i < 2; ++i) world.done(0);
  for (int i = 0; i < 5; ++i) {
    REQUIRE(world.waits_for(TrainAction::pause));
    world.pause_failed(Errc::timeout, "no answer");
    CHECK(!world.waits_for(TrainAction::pause));
    world.wait(Millis(1));
    CHECK(!world.waits_for(TrainAction::pause));
    world.wait(Millis(1000));
  }
  CHECK(world.told().size() == 1);
  CHECK(world.told()[0] ==
        "what the program does at step 2 failed and will be done again: no answer");
  world.settle();
  CHECK(world.finished());
}

TEST_CASE("a pause that fails for longer than patience ends training, and so does a mistake") {
  TrainWorld world(pausing({0}, 4, 2));
  for (int i = 0; i < 2; ++i) world.done(0);
  SUBCASE("patience") {
    while (!world.failed()) {
      if (world.waits_for(TrainAction::pause))
        world.pause_failed(Errc::peer_lost, "ps 0 is gone");
      else
        world.wait(Millis(1000));
    }
    CHECK(world.last().code == Errc::peer_lost);
    CHECK(world.now >= Millis(11'000));
  }
  SUBCASE("mistake") {
    world.pause_failed(Errc::invalid_argument, "no such metric");
    CHECK(world.failed());
    CHECK(world.last().text == "the pause of step 2: no such metric");
  }
}

TEST_CASE("who abandons a training in a pause waits for its answer") {
  TrainWorld world(pausing({0}, 4, 2));
  for (int i = 0; i < 2; ++i) world.done(0);
  world.take(world.loop.abandon(Errc::cancelled, "closed", world.now));
  CHECK(world.cancels == 1);
  CHECK(!world.failed());
  world.paused();
  CHECK(world.failed());
  CHECK(world.last().code == Errc::cancelled);
}

TEST_CASE("a resumed training does not pause where it begins") {
  TrainWorld world(pausing({0, 1}, 8, 4), {{0, 4}, {1, 4}});
  CHECK(world.running == TrainWorld::Steps{{0, 4}, {1, 4}});
  world.settle();
  CHECK(world.steps_of(TrainAction::pause) == std::vector<int64_t>{8});
}

}  // namespace
}  // namespace troupe
