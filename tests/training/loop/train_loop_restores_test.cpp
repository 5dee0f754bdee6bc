// TrainLoop when shards are lost: steps end, shards are restored, every replica goes back.
#include <random>

#include "tests/support/train_world.hpp"

namespace troupe {
namespace {

TEST_CASE("lost shards end running steps, and every replica goes back to the restored step") {
  TrainWorld world(plan_of({0, 1}, 9, 2));
  for (int i = 0; i < 2; ++i) world.done(0);
  for (int i = 0; i < 2; ++i) world.done(1);
  world.saved_it();
  world.done(0);
  world.lose();
  CHECK(world.cancels == 1);
  CHECK(!world.waits_for(TrainAction::restore));
  world.fail(0, Errc::cancelled);
  world.done(1);  // it is lost with the shards
  CHECK(world.waits_for(TrainAction::restore));
  CHECK(world.loop.recoveries() == 1);
  world.restored();
  CHECK(world.running == TrainWorld::Steps{{0, 2}, {1, 2}});
  CHECK(world.told().back() == "shards restored at step 2; the 1 steps since are done again");
  world.settle();
  CHECK(world.finished());
}

TEST_CASE("updates that the asynchronous rule had acknowledged are told as lost, and counted") {
  TrainLoop::Plan plan = plan_of({0, 1}, 9, 2);
  for (const bool async : {false, true}) {
    if (async) plan.rule = Aggregation::async;
    TrainWorld world(plan);
    for (int i = 0; i < 2; ++i) world.done(0);
    for (int i = 0; i < 2; ++i) world.done(1);
    world.saved_it();
    for (int i = 0; i < 2; ++i) world.done(0);
    world.done(1);
    world.lose();
    world.fail(1, Errc::cancelled);
    world.restored();
    CHECK(world.loop.lost_updates() == (async ? 3 : 0));
    const auto told = world.told();
    CHECK(told.back() == "shards restored at step 2; the 2 steps since are done again");
    const bool as_lost =
        told[told.size() - 2].find("the updates of 3 acknowledged steps are lost:") == 0;
    CHECK(as_lost == async);
    world.settle();
    CHECK(world.finished());
  }
}

TEST_CASE("shards that are as they were when their process is back keep every step") {
  TrainWorld world(plan_of({0, 1, 2}, 9, 4));
  for (int i = 0; i < 3; ++i) world.done(0);
  world.done(1);
  world.lose();
  world.fail(0, Errc::cancelled);
  world.done(1);  // it counts: its gradients were acknowledged
  world.fail(2, Errc::peer_lost);
  REQUIRE(world.waits_for(TrainAction::restore));
  world.not_restored(Errc::peer_lost);  // its process is away
  world.wait(Millis(20));
  REQUIRE(world.waits_for(TrainAction::restore));
  SUBCASE("at once") {}
  SUBCASE("or after another loss meanwhile") {
    world.lose();
    world.kept();
    CHECK(world.running.empty());
    world.wait(Millis(20));
    REQUIRE(world.waits_for(TrainAction::restore));
  }
  world.kept();
  CHECK(world.running == TrainWorld::Steps{{0, 3}, {1, 2}, {2, 0}});
  CHECK(world.loop.recoveries() == 0);
  CHECK(world.told().back() ==
        "every shard is as it was, at step 0; only the steps that were under way are done again");
  world.settle();
  CHECK(world.finished());
  CHECK(world.count(TrainAction::checkpoint) == 3);
}

TEST_CASE("shards that were restored, lost their links and kept that state go on from there") {
  TrainWorld world(plan_of({0}, 9, 2));
  for (int i = 0; i < 2; ++i) world.done(0);
  world.saved_it();
  world.done(0);
  world.lose();
  world.fail(0, Errc::peer_lost);
  world.lose();
  world.restored();
  world.wait(Millis(20));
  REQUIRE(world.waits_for(TrainAction::restore));
  world.kept();
  CHECK(world.running.at(0) == 2);
  CHECK(world.loop.recoveries() == 2);
  CHECK(world.told().back() == "shards restored at step 2; the 1 steps since are done again");
  world.settle();
  CHECK(world.finished());
}

TEST_CASE("a checkpoint that a lost link has ended is taken again if no replica has gone on") {
  const int64_t last = 4;
  for (const int64_t lost_at : {int64_t{2}, last})
    for (const bool captured : {false, true})
      for (const Errc ended : {Errc::peer_lost, Errc::ok}) {
        CAPTURE(lost_at);
        CAPTURE(captured);
        CAPTURE(ended);
        TrainWorld world(plan_of({0, 1}, last, 2));
        while (!world.waits_for(TrainAction::checkpoint) ||
               world.steps_of(TrainAction::checkpoint).back() < lost_at) {
          if (world.waits_for(TrainAction::checkpoint))
            world.saved_it();
          else
            world.done(world.running.begin()->first);
        }
        const int before = world.count(TrainAction::checkpoint);
        if (captured) world.capture();
        world.lose();
        while (!world.running.empty()) world.fail(world.running.begin()->first, Errc::cancelled);
        world.saved_it(ended);
        REQUIRE(world.waits_for(TrainAction::restore));
        const bool again = ended != Errc::ok && (!captured || lost_at == last);
        world.kept();
        CHECK(world.waits_for(TrainAction::checkpoint) == again);
        CHECK(world.count(TrainAction::checkpoint) == before + (again ? 1 : 0));
        world.settle();
        CHECK(world.finished());
        for (const auto& [replica, step] : world.saved) CHECK(step == last);
      }
}

TEST_CASE("shards that are lost before the first checkpoint start from the beginning") {
  TrainWorld world(plan_of({0, 1}, 3, 0));
  world.done(0);
  world.lose();
  world.done(0);
  world.done(1);
  world.restored();
  CHECK(world.running == TrainWorld::Steps{{0, 0}, {1, 0}});
  world.settle();
  CHECK(world.finished());
}

TEST_CASE("shards that are lost during a checkpoint are restored when the checkpoint has ended") {
  for (const Errc errc : {Errc::ok, Errc::peer_lost, Errc::io}) {
    TrainWorld world(plan_of({0}, 4, 2));
    world.done(0);
    world.done(0);
    REQUIRE(world.waits_for(TrainAction::checkpoint));
    world.lose();
    CHECK(world.cancels == 1);
    CHECK(world.count(TrainAction::give_up_checkpoint) == 1);
    CHECK(!world.waits_for(TrainAction::restore));
    world.saved_it(errc);
    CHECK(world.waits_for(TrainAction::restore));
    world.restored();
    CHECK(world.running == TrainWorld::Steps{{0, errc == Errc::ok ? 2 : 0}});
    world.settle();
    CHECK(world.finished());
  }
}

TEST_CASE(
    "shards that are lost while others are restored are restored again, one restore at a time") {
  TrainWorld world(plan_of({0}, 4, 2));
  world.lose();
  world.fail(0, Errc::peer_lost);
  REQUIRE(world.waits_for(TrainAction::restore));
  world.lose();
  CHECK(world.count(TrainAction::restore) == 1);
  SUBCASE("after one that succeeded") { world.restored(); }
  SUBCASE("after one that failed") { world.not_restored(Errc::peer_lost); }
  CHECK(!world.waits_for(TrainAction::restore));
  world.wait(Millis(20));
  CHECK(world.waits_for(TrainAction::restore));
  CHECK(world.count(TrainAction::restore) == 2);
  CHECK(world.running.empty());
  world.restored();
  CHECK(world.running.at(0) == 0);
  CHECK(world.loop.recoveries() == 2);
}

TEST_CASE("shards that are lost while steps are being ended are restored once") {
  TrainWorld world(plan_of({0, 1}, 4, 2));
  world.lose();
  world.lose();
  world.fail(0, Errc::peer_lost);
  world.lose();
  world.fail(1, Errc::peer_lost);
  CHECK(world.count(TrainAction::restore) == 1);
  world.restored();
  world.settle();
  CHECK(world.count(TrainAction::restore) == 1);
}

TEST_CASE("shards that are lost when training has ended or is failing are nobody's loss") {
  TrainWorld world(plan_of({0, 1}, 1, 0, false));
  world.fail(0, Errc::internal);
  world.take(world.loop.shards_lost("ps 0 is gone", world.now));
  world.fail(1, Errc::cancelled);
  CHECK(world.failed());
  CHECK(world.count(TrainAction::restore) == 0);
  CHECK(world.loop.shards_lost("ps 0 is gone", world.now).empty());
  CHECK(world.loop.tick(world.now + Millis(1'000'000)).empty());
}

TEST_CASE("a restore that cannot be mended ends training") {
  TrainWorld world(plan_of({0}, 4, 2));
  world.lose();
  world.fail(0, Errc::peer_lost);
  world.not_restored(Errc::bad_configuration);
  CHECK(world.failed());
  CHECK(world.last().code == Errc::bad_configuration);
}

TEST_CASE("shards that are lost while files are written are restored when the writing has ended") {
  TrainWorld world(plan_of({0}, 4, 2));
  world.done(0);
  world.done(0);
  world.capture();
  world.lose();
  world.fail(0, Errc::cancelled);
  CHECK(!world.waits_for(TrainAction::restore));
  world.saved_it();
  CHECK(world.waits_for(TrainAction::restore));
  world.restored();
  CHECK(world.running.at(0) == 2);
  world.settle();
  CHECK(world.finished());
}

TEST_CASE("patience for a restore begins when the files that it waits for are written") {
  TrainWorld world(plan_of({0}, 4, 2));
  world.done(0);
  world.done(0);
  world.capture();
  world.lose();
  world.fail(0, Errc::cancelled);
  world.wait(Millis(11'000));  // longer than patience
  world.saved_it();
  REQUIRE(world.waits_for(TrainAction::restore));
  world.not_restored(Errc::peer_lost);
  REQUIRE(!world.ended());
  world.wait(Millis(20));
  REQUIRE(world.waits_for(TrainAction::restore));
  world.restored();
  world.settle();
  CHECK(world.finished());
}

// Shards that another session owns

TrainLoop::Plan following(std::vector<int64_t> replicas) {
  TrainLoop::Plan plan = plan_of(std::move(replicas), 9, 0, false);
  plan.follows = true;
  return plan;
}

TEST_CASE("a stale step of a session that follows another is done again; the epoch decides") {
  TrainWorld world(following({0, 1}));
  world.fail(0, Errc::stale);
  world.fail(1, Errc::stale);  // one question for both
  CHECK(world.asking());
  CHECK(world.count(TrainAction::restore) == 0);
  world.wait(Millis(20));
  CHECK(world.running == TrainWorld::Steps{{0, 0}, {1, 0}});
  SUBCASE("the same: nothing is restored") {
    world.epoch_found(false);
    CHECK(world.loop.recoveries() == 0);
    world.done(0);
    world.fail(0, Errc::stale);
    CHECK(world.asking());  // the next time it may be another one
    world.epoch_found(false);
    world.settle();
    CHECK(world.finished());
    CHECK(world.loop.recoveries() == 0);
  }
  SUBCASE("a new one: all replicas go back to where its owner is") {
    world.epoch_found(true);
    CHECK(world.cancels == 1);
    world.fail(0, Errc::stale);
    world.fail(1, Errc::cancelled);
    CHECK(world.waits_for(TrainAction::restore));
    CHECK(!world.asking());
    world.restored();
    CHECK(world.loop.recoveries() == 1);
    world.settle();
    CHECK(world.finished());
  }
}

TEST_CASE("a new epoch that is found after the shards were restored is not restored again") {
  TrainWorld world(following({0}));
  world.fail(0, Errc::stale);
  world.lose();  // the loss of their process is told, too
  REQUIRE(world.waits_for(TrainAction::restore));
  SUBCASE("the answer comes after the restore") {
    world.restored();
    world.epoch_found(true);
  }
  SUBCASE("or before its end") {
    world.epoch_found(true);
    world.restored();
  }
  CHECK(world.count(TrainAction::restore) == 1);
  CHECK(world.loop.recoveries() == 1);
  world.fail(0, Errc::stale);
  CHECK(world.asking());
}

TEST_CASE("the owner of the shards does a stale step again, and asks nobody") {
  TrainWorld world(plan_of({0}, 3, 0, false));
  world.fail(0, Errc::stale);
  CHECK(!world.asking());
  world.settle();
  CHECK(world.finished());
  CHECK(world.loop.recoveries() == 0);
}

TEST_CASE(
    "random failures never start a step out of order, and training finishes or says why it "
    "failed") {
  int finished = 0, failed = 0, recoveries = 0, new_epochs = 0;
  for (uint32_t seed = 1; seed <= 2000; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    const auto chance = [&](uint32_t percent) { return random() % 100 < percent; };
    std::vector<int64_t> replicas;
    for (uint32_t i = 0; i < 1 + random() % 4; ++i) replicas.push_back(i);
    TrainLoop::Plan plan = plan_of(replicas, static_cast<int64_t>(random() % 12),
                                   static_cast<int64_t>(random() % 5), chance(80));
    plan.follows = !plan.checkpoints;
    TrainWorld world(plan);
    const std::vector<Errc> passing = {Errc::peer_lost, Errc::timeout, Errc::cancelled,
                                       Errc::stale};
    const auto pass = [&] { return passing[random() % passing.size()]; };
    const bool hopeless = chance(10);
    for (int i = 0; i < 400 && !world.ended(); ++i) {
      if (chance(5) && world.cancels == 0) {
        world.lose();
        continue;
      }
      if (world.asking() && chance(30)) {
        const bool is_new = chance(50);
        new_epochs += is_new && world.asked_at == world.loop.recoveries();
        world.epoch_found(is_new);
      } else if (world.waits_for(TrainAction::restore)) {
        if (chance(30))
          world.not_restored(hopeless && chance(20) ? Errc::bad_configuration : pass());
        else if (chance(30))
          world.kept();
        else
          world.restored();
      } else if (world.waits_for(TrainAction::checkpoint) && !world.captured && chance(50)) {
        world.capture();
      } else if (world.waits_for(TrainAction::checkpoint) && (!world.captured || chance(30))) {
        const bool last = world.steps_of(TrainAction::checkpoint).back() >= world.plan.steps;
        world.saved_it(chance(20) ? pass() : chance(10) && !last ? Errc::io : Errc::ok);
      } else if (!world.running.empty() && chance(85)) {
        const int64_t replica =
            std::next(world.running.begin(),
                      static_cast<std::ptrdiff_t>(random() % world.running.size()))
                ->first;
        if (chance(15))
          world.fail(replica, hopeless && chance(5) ? Errc::kernel_failed : pass());
        else
          world.done(replica);
      } else {
        world.wait(Millis(random() % 100));
      }
    }
    world.settle();
    finished += world.finished();
    failed += world.failed();
    recoveries += static_cast<int>(world.loop.recoveries());
    if (world.failed()) REQUIRE(!world.last().text.empty());
    if (!hopeless && world.failed())
      REQUIRE(world.last().text.find("no progress") != std::string::npos);
  }
  CHECK(finished > 1500);
  CHECK(failed > 5);
  CHECK(recoveries > 500);
  CHECK(new_epochs > 50);
}

}  // namespace
}  // namespace troupe
