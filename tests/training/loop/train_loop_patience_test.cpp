// TrainLoop when something fails: what is tried again, how often, and when training gives up.
#include "tests/support/refusal.hpp"
#include "tests/support/train_world.hpp"

namespace troupe {
namespace {

TEST_CASE("a failed step is run again after 20 ms, then 40, up to a second") {
  TrainWorld world(plan_of({0, 1}, 3, 0, false));
  for (const int wait : {20, 40, 80, 160, 320, 640, 1000, 1000}) {
    world.fail(0, Errc::peer_lost);
    world.wait(Millis(wait - 1));
    CHECK(world.running.count(0) == 0);
    world.wait(Millis(1));
    CHECK(world.running.at(0) == 0);
  }
  CHECK(world.told().size() == 1);  // once a step, not once a try
  world.done(0);
  world.fail(0, Errc::timeout);
  world.wait(Millis(20));  // a step that succeeded ends the row of failures
  CHECK(world.running.at(0) == 1);
  CHECK(world.told().size() == 2);
}

TEST_CASE("a failure that a retry cannot mend ends training when all replicas are idle") {
  for (const Errc errc : {Errc::invalid_argument, Errc::bad_data, Errc::kernel_failed,
                          Errc::internal, Errc::out_of_memory, Errc::io}) {
    TrainWorld world(plan_of({0, 1, 2}, 3, 0, false));
    world.fail(1, errc, "the data is bad");
    CHECK(world.cancels == 1);
    CHECK(!world.failed());
    world.done(0);
    CHECK(!world.failed());
    world.fail(2, Errc::cancelled);
    CHECK(world.failed());
    CHECK(world.last().code == errc);
    CHECK(world.last().text == "step 0 of replica 1: the data is bad");
  }
}

TEST_CASE("training ends when steps have failed for longer than patience lasts") {
  TrainWorld world(plan_of({0}, 3, 0, false));
  world.done(0);
  const Millis since = world.now;
  for (int i = 0; i < 1000 && !world.failed(); ++i) {
    if (!world.running.empty()) world.fail(0, Errc::peer_lost);
    if (!world.failed()) world.wait(Millis(50));
  }
  CHECK(world.failed());
  CHECK(world.last().code == Errc::peer_lost);
  CHECK(world.now - since >= Millis(10'000));
  CHECK(world.now - since <= Millis(10'100));
  CHECK(world.last().text.find("no progress for 10000 ms") != std::string::npos);
}

TEST_CASE("the end of patience names the process that is gone, not a step that waits for it") {
  TrainWorld world(plan_of({0, 1}, 3, 0, false));
  world.fail(1, Errc::peer_lost, "/job:worker/task:1 is gone");
  world.wait(Millis(10'000));
  if (world.running.count(1)) world.fail(1, Errc::peer_lost, "/job:worker/task:1 is gone");
  world.fail(0, Errc::timeout, "it waits for the gradient of replica 1");
  for (int i = 0; i < 10 && !world.failed(); ++i) {
    const auto running = world.running;
    for (const auto& [replica, step] : running) world.fail(replica, Errc::cancelled);
    world.wait(Millis(50));
  }
  REQUIRE(world.failed());
  CHECK(world.last().code == Errc::peer_lost);
  CHECK(world.last().text ==
        "no progress for 10000 ms; step 0 of replica 1: /job:worker/task:1 is gone");
}

TEST_CASE(
    "patience does not run out while a step is running, nor while another replica makes progress") {
  TrainWorld world(plan_of({0, 1}, 100, 0, false));
  world.wait(Millis(60'000));
  CHECK(!world.ended());
  for (int i = 0; i < 20; ++i) {
    world.done(0);
    world.now += Millis(5'000);
    world.fail(1, Errc::peer_lost);
    world.wait(Millis(1'000));
    CHECK(!world.ended());
  }
}

TEST_CASE("who waits for a restore is told each five seconds what it waits for") {
  TrainWorld world(plan_of({0}, 9));
  world.lose();
  world.fail(0, Errc::cancelled);
  const size_t before = world.told().size();
  size_t words = 0;
  for (int seconds = 1; seconds <= 9; ++seconds) {
    world.not_restored(Errc::peer_lost);
    words = world.told().size() - before;
    CHECK(words == (seconds > 5 ? 1 : 0));
    world.wait(Millis(1000));
    REQUIRE(world.waits_for(TrainAction::restore));
  }
  CHECK(world.told().back().find("not there") != std::string::npos);
  CHECK(world.told().back().find("since 5 s") != std::string::npos);
}

TEST_CASE("a checkpoint that cannot be read is waited for: said at once, then each five seconds") {
  Errc code = Errc::io;
  SUBCASE("a file") {}
  SUBCASE("or all of them are damaged") { code = Errc::bad_data; }
  for (const bool comes_back : {true, false}) {
    CAPTURE(comes_back);
    TrainWorld world(plan_of({0}, 4, 2));
    world.lose();
    world.fail(0, Errc::peer_lost);
    world.not_restored(Errc::peer_lost);  // its process is not back yet
    const size_t before = world.told().size();
    for (int i = 0; i < 6; ++i) {
      world.wait(Millis(1000));
      REQUIRE(world.waits_for(TrainAction::restore));
      world.not_restored(code);
    }
    REQUIRE(world.told().size() - before == 2);
    CHECK(world.told().back().find("not there") != std::string::npos);
    CHECK(world.told().back().find("10 s") != std::string::npos);
    if (comes_back) {
      world.wait(Millis(1000));
      world.restored();
      world.settle();
      CHECK(world.finished());
      continue;
    }
    world.never_restored(code);
    CHECK(world.last().code == code);
    CHECK(world.last().text ==
          "the shards could not be restored for 10 s: not there; no checkpoint was removed: make "
          "them readable for the program and all processes with shards, and resume");
  }
}

TEST_CASE("a restore that fails is tried again by and by, until patience ends") {
  TrainWorld world(plan_of({0}, 4, 2));
  world.lose();
  world.fail(0, Errc::peer_lost);
  for (const int wait : {20, 40, 80, 160, 320, 640, 1000}) {
    REQUIRE(world.waits_for(TrainAction::restore));
    world.not_restored(Errc::peer_lost);
    world.wait(Millis(wait - 1));
    CHECK(!world.waits_for(TrainAction::restore));
    world.wait(Millis(1));
  }
  world.never_restored(Errc::timeout);
  CHECK(world.last().code == Errc::timeout);
  CHECK(world.last().text ==
        "the shards could not be restored for 10 s: not there; start what is missing and resume "
        "from the checkpoint");
}

TEST_CASE("a restore for which a process has no memory is tried again, until patience ends") {
  for (const bool is_freed : {true, false}) {
    CAPTURE(is_freed);
    TrainWorld world(plan_of({0}, 4, 2));
    world.lose();
    world.fail(0, Errc::peer_lost);
    world.not_restored(Errc::out_of_memory);
    REQUIRE(!world.ended());
    if (is_freed) {
      world.wait(Millis(20));
      world.restored();
      world.settle();
      CHECK(world.finished());
      continue;
    }
    world.never_restored(Errc::out_of_memory);
    CHECK(world.last().code == Errc::out_of_memory);
    CHECK(world.last().text ==
          "the shards could not be restored for 10 s: not there; give that process more memory, "
          "and resume from the checkpoint");
  }
}

TEST_CASE(
    "a checkpoint that fails for a passing reason is tried again by and by, until patience ends") {
  TrainWorld world(plan_of({0}, 4, 2));
  world.done(0);
  world.now += Millis(20'000);  // a long step
  world.done(0);
  const size_t told = world.told().size();
  world.now += Millis(20'000);  // a long checkpoint
  const Millis since = world.now;
  for (const int wait : {20, 40, 80, 160}) {
    REQUIRE(world.waits_for(TrainAction::checkpoint));
    world.saved_it(Errc::peer_lost);
    CHECK(world.running.empty());
    world.wait(Millis(wait - 1));
    CHECK(!world.waits_for(TrainAction::checkpoint));
    world.wait(Millis(1));
  }
  CHECK(world.told().size() == told + 1);
  SUBCASE("then it may succeed") {
    world.saved_it();
    CHECK(world.running.at(0) == 2);
    world.done(0);
    world.done(0);
    world.saved_it(Errc::timeout);
    world.wait(Millis(20));  // the row of failures ended with the last success
    CHECK(world.waits_for(TrainAction::checkpoint));
    world.settle();
    CHECK(world.finished());
  }
  SUBCASE("or never") {
    for (int i = 0; i < 1000 && !world.failed(); ++i)
      if (world.waits_for(TrainAction::checkpoint))
        world.saved_it(Errc::peer_lost);
      else
        world.wait(Millis(50));
    CHECK(world.failed());
    CHECK(world.last().code == Errc::peer_lost);
    CHECK(world.now - since >= Millis(10'000));
    CHECK(world.now - since <= Millis(12'000));
  }
}

TEST_CASE("shards that are lost again and again are restored later and later, then no more") {
  TrainWorld world(plan_of({0}, 9, 2));
  world.done(0);
  world.lose();
  world.fail(0, Errc::cancelled);
  CHECK(world.waits_for(TrainAction::restore));  // the first time at once
  world.restored();
  const Millis first = world.now;
  for (int losses = 2; losses <= 20; ++losses) {
    CAPTURE(losses);
    REQUIRE(!world.ended());
    if (losses % 2 == 0) world.done(0);  // a step that had been done before is no progress
    world.lose();
    world.fail(0, Errc::cancelled);
    CHECK(!world.waits_for(TrainAction::restore));
    const Millis pause{std::min(1000, 20 << std::min(losses - 2, 6))};
    world.wait(pause - Millis(1));
    CHECK(!world.waits_for(TrainAction::restore));
    world.wait(Millis(1));
    REQUIRE(world.waits_for(TrainAction::restore));
    world.restored();
  }
  CHECK(world.now - first < Millis(20'000));
  SUBCASE("a step further, and they count anew") {
    world.done(0);
    world.done(0);
    world.saved_it();
    world.lose();
    world.fail(0, Errc::cancelled);
    CHECK(world.waits_for(TrainAction::restore));
    world.restored();
    world.settle();
    CHECK(world.finished());
  }
  SUBCASE("once more, and training ends and says why") {
    world.lose();
    world.fail(0, Errc::cancelled);
    REQUIRE(world.failed());
    CHECK(world.last().code == Errc::peer_lost);
    CHECK(world.last().text.find("lost 21 times since step 1") != std::string::npos);
    CHECK(world.last().text.find("ps 0 is gone") != std::string::npos);
    CHECK(world.last().text.find("TrainOptions::checkpoint_every") != std::string::npos);
  }
}

TEST_CASE("a training without checkpoints that ends with many losses is told to take some") {
  for (const bool follows : {false, true}) {
    TrainLoop::Plan plan = plan_of({0}, 9, 0, false);
    plan.follows = follows;
    TrainWorld world(plan);
    for (int losses = 1; losses <= 20; ++losses) {
      world.lose();
      world.fail(0, Errc::cancelled);
      for (int i = 0; i < 100 && !world.waits_for(TrainAction::restore); ++i)
        world.wait(Millis(50));
      world.restored();
    }
    world.lose();
    world.fail(0, Errc::cancelled);
    REQUIRE(world.failed());
    const bool told = world.last().text.find("TrainOptions::checkpoint_dir") != std::string::npos;
    CHECK(told == !follows);  // its owner takes them
  }
}

TEST_CASE("training that is abandoned ends with that reason when all replicas are idle") {
  TrainWorld world(plan_of({0, 1}, 4, 2));
  SUBCASE("while steps run") {
    world.take(world.loop.abandon(Errc::cancelled, "enough", world.now));
    CHECK(world.cancels == 1);
    world.done(0);
    CHECK(!world.failed());
    world.fail(1, Errc::cancelled);
  }
  SUBCASE("while shards are restored") {
    world.lose();
    world.fail(0, Errc::peer_lost);
    world.fail(1, Errc::peer_lost);
    REQUIRE(world.waits_for(TrainAction::restore));
    world.take(world.loop.abandon(Errc::cancelled, "enough", world.now));
    CHECK(!world.failed());
    SUBCASE("well") { world.restored(); }
    SUBCASE("in vain") { world.not_restored(Errc::peer_lost); }
  }
  SUBCASE("while a checkpoint is written") {
    for (int i = 0; i < 2; ++i) world.done(0);
    for (int i = 0; i < 2; ++i) world.done(1);
    world.capture();
    world.take(world.loop.abandon(Errc::cancelled, "enough", world.now));
    world.fail(0, Errc::cancelled);
    world.fail(1, Errc::cancelled);
    CHECK(!world.failed());
    world.saved_it();
  }
  CHECK(world.failed());
  CHECK(world.last().code == Errc::cancelled);
  CHECK(world.last().text == "enough");
}

// A step of the only replica fails again and again until the loop asks for its source, or ends.
void fail_until_asked(TrainWorld& world, Errc errc) {
  for (int i = 0; i < 1000 && !world.asks_source && !world.ended(); ++i) {
    if (!world.running.empty()) world.fail(0, errc, "it waits for ReadSource");
    if (!world.ended() && !world.asks_source) world.wait(Millis(50));
  }
}

TEST_CASE("a source that moves counts as progress when patience has run out") {
  TrainLoop::Plan plan = plan_of({0}, 3, 0, false);
  plan.reads = true;
  TrainWorld world(plan);
  for (int round = 0; round < 5; ++round) {
    const Millis since = world.now;
    fail_until_asked(world, round % 2 ? Errc::peer_lost : Errc::timeout);
    REQUIRE(world.asks_source);
    CHECK(world.now - since >= Millis(10'000));
    CHECK(world.now - since <= Millis(11'100));
    world.source_found(Millis(9'999));
    REQUIRE(!world.ended());
  }
  has(world.told().back(), "a source is read up to a step's records for more than 10 s");
  fail_until_asked(world, Errc::timeout);
  world.source_found(Millis(10'000));
  REQUIRE(world.failed());
  CHECK(world.last().code == Errc::timeout);
  has(world.last().text, "no progress for 10000 ms");
  has(world.last().text, "step 0 of replica 0: it waits for ReadSource");
}

TEST_CASE("patience ends where no step waits for a source, and an answer after progress is late") {
  TrainLoop::Plan plan = plan_of({0}, 3, 0, false);
  plan.reads = true;
  TrainWorld world(plan);
  fail_until_asked(world, Errc::timeout);
  while (world.running.empty()) world.wait(Millis(50));
  world.done(0);
  world.source_found(Millis(-1));
  CHECK(!world.ended());
  fail_until_asked(world, Errc::timeout);
  world.source_found(Millis(-1));
  CHECK(world.failed());
}

TEST_CASE("memory that was enough before is waited for, up to the end of patience") {
  TrainWorld world(plan_of({0}, 3, 0, false));
  world.done(0);
  world.fail(0, Errc::out_of_memory, "ps 0: no memory");
  CHECK(!world.ended());
  has(world.told().back(), "step 1 of replica 0 failed and will be done again");
  world.wait(Millis(20));
  world.done(0);
  for (int i = 0; i < 1000 && !world.failed(); ++i) {
    if (!world.running.empty()) world.fail(0, Errc::out_of_memory, "ps 0: no memory");
    if (!world.failed()) world.wait(Millis(50));
  }
  REQUIRE(world.failed());
  CHECK(world.last().code == Errc::out_of_memory);
  has(world.last().text, "no progress for 10000 ms; step 2 of replica 0: ps 0: no memory");
}

TEST_CASE("a file that could be read before is tried again, up to the end of patience") {
  TrainWorld world(plan_of({0}, 3, 0, false));
  world.done(0);
  world.fail(0, Errc::io, "train.csv: stale file handle");
  CHECK(!world.ended());
  has(world.told().back(), "step 1 of replica 0 failed and will be done again");
  world.wait(Millis(20));
  world.done(0);
  const Millis since = world.now;
  for (int i = 0; i < 1000 && !world.failed(); ++i) {
    if (!world.running.empty()) world.fail(0, Errc::io, "train.csv: no such file");
    if (!world.failed()) world.wait(Millis(50));
  }
  REQUIRE(world.failed());
  CHECK(world.now - since >= Millis(10'000));
  CHECK(world.last().code == Errc::io);
  has(world.last().text, "no progress for 10000 ms; step 2 of replica 0: train.csv: no such file");
}

}  // namespace
}  // namespace troupe
