// TrainLoop: a world of slots and shards that does what it is told, fails as a script or a seed
// says, and checks every order.
#include "training/train_loop.hpp"

#include <doctest/doctest.h>

#include <random>
#include <set>
#include <sstream>

namespace troupe {
namespace {

using Millis = TrainLoop::Millis;

TrainLoop::Plan plan_of(std::vector<int64_t> slots, int64_t steps, int64_t every = 0,
                        bool checkpoints = true) {
  TrainLoop::Plan plan;
  plan.slots = std::move(slots);
  plan.steps = steps;
  plan.checkpoint_every = every;
  plan.checkpoints = checkpoints;
  plan.patience = Millis(10'000);
  return plan;
}

// Carries orders out in thought, and checks that each makes sense.
struct World {
  explicit World(TrainLoop::Plan p, std::map<int64_t, int64_t> from = {})
      : plan(std::move(p)), loop(plan, from) {
    for (int64_t slot : plan.slots) next[slot] = from.count(slot) ? from[slot] : 0;
    saved = next;
    take(loop.begin(now));
  }

  void take(const TrainOrders& orders) {
    for (const TrainOrder& o : orders) {
      REQUIRE(!ended());
      switch (o.kind) {
        case TrainOrder::start:
          REQUIRE((!snapshotting || captured));
          REQUIRE(!restoring);
          REQUIRE(!lost);  // a step on shards that are gone would be for nothing
          REQUIRE(running.count(o.slot) == 0);
          REQUIRE(o.step == next.at(o.slot));  // in order, none twice unless rolled back
          REQUIRE(o.step < plan.steps);
          running[o.slot] = o.step;
          break;
        case TrainOrder::cancel:
          REQUIRE((!running.empty() || snapshotting));
          ++cancels;
          break;
        case TrainOrder::snapshot:
          REQUIRE(running.empty());
          REQUIRE(!snapshotting);
          REQUIRE(!restoring);
          REQUIRE(!lost);
          for (const auto& [slot, step] : next) REQUIRE(step >= o.step);
          snapshotting = true;
          captured = false;
          snapshot_step = o.step;
          ++snapshots;
          break;
        case TrainOrder::restore:
          REQUIRE(running.empty());
          REQUIRE(!snapshotting);
          REQUIRE(!restoring);
          restoring = true;
          ++restores;
          lost = false;  // what is lost from now on is lost again
          break;
        case TrainOrder::finish:
          REQUIRE(running.empty());
          REQUIRE(!snapshotting);
          REQUIRE(!restoring);
          for (const auto& [slot, step] : next) REQUIRE(step == plan.steps);
          finished = true;
          break;
        case TrainOrder::fail:
          REQUIRE(running.empty());
          REQUIRE(!snapshotting);
          REQUIRE(!restoring);
          failed = true;
          code = o.code;
          text = o.text;
          break;
        case TrainOrder::tell:
          REQUIRE(!o.text.empty());
          told.push_back(o.text);
          break;
      }
    }
    REQUIRE(loop.ended() == ended());
  }
  bool ended() const { return finished || failed; }

  // Answers to orders. While shards are lost, or once training is failing, a step that ends well
  // does not count.
  void done(int64_t slot, double loss = 1.0) {
    const int64_t step = running.at(slot);
    running.erase(slot);
    const bool counts = !lost && cancels == 0;
    if (counts) next[slot] = step + 1;
    take(loop.step_done(slot, step, loss, now));
  }
  void fail(int64_t slot, Errc errc, const std::string& why = "why") {
    const int64_t step = running.at(slot);
    running.erase(slot);
    take(loop.step_failed(slot, step, errc, why, now));
  }
  void lose() {
    lost = true;
    take(loop.shards_lost("ps 0 is gone", now));
  }
  void capture() {
    captured = true;
    image = next;
    take(loop.snapshot_captured(now));
  }
  void saved_it(Errc errc = Errc::ok) {
    if (errc == Errc::ok && !captured) capture();
    snapshotting = false;
    if (errc == Errc::ok) saved = image;
    take(loop.snapshot_taken(errc, "the answer", now));
  }
  void restored() {
    restoring = false;
    cancels = 0;
    if (!lost) next = saved;
    take(loop.restored(saved, now));
  }
  void not_restored(Errc errc) {
    restoring = false;
    take(loop.restore_failed(errc, "not there", now));
  }
  void wait(Millis time) {
    now += time;
    take(loop.tick(now));
  }
  // Everything goes well from here.
  void settle() {
    for (int i = 0; i < 100'000 && !ended(); ++i) {
      if (restoring)
        restored();
      else if (snapshotting)
        saved_it();
      else if (!running.empty())
        done(running.begin()->first);
      else
        wait(Millis(50));
    }
    REQUIRE(ended());
  }

  TrainLoop::Plan plan;
  TrainLoop loop;
  Millis now{1'000};
  std::map<int64_t, int64_t> next, saved, image, running;
  bool snapshotting = false, captured = false, restoring = false, lost = false, finished = false,
       failed = false;
  int64_t snapshot_step = -1;
  int cancels = 0, snapshots = 0, restores = 0;
  std::vector<std::string> told;
  Errc code = Errc::ok;
  std::string text;
};

TEST_CASE("every slot runs every step, and training finishes when all are done") {
  World world(plan_of({0, 1, 5}, 3, 0, false));
  CHECK(world.running == std::map<int64_t, int64_t>{{0, 0}, {1, 0}, {5, 0}});
  for (int i = 0; i < 3; ++i) world.done(0);
  CHECK(world.running.count(0) == 0);
  for (int i = 0; i < 3; ++i) world.done(5);
  for (int i = 0; i < 2; ++i) world.done(1);
  CHECK(!world.finished);
  CHECK(world.loop.done_steps() == 2);
  world.done(1);
  CHECK(world.finished);
  CHECK(world.snapshots == 0);
  CHECK(world.loop.done_steps() == 3);
}

TEST_CASE("training of no steps finishes at once") {
  CHECK(World(plan_of({0, 1}, 0, 0, false)).finished);
  CHECK(World(plan_of({0, 1}, 7, 0, false), {{0, 7}, {1, 7}}).finished);
}

TEST_CASE("all slots stop at a checkpoint's step and go on when it is taken") {
  World world(plan_of({0, 1}, 5, 2));
  world.done(0);
  world.done(0);
  CHECK(world.running == std::map<int64_t, int64_t>{{1, 0}});  // slot 0 waits at step 2
  world.done(1);
  CHECK(!world.snapshotting);
  world.done(1);
  CHECK(world.snapshotting);
  CHECK(world.snapshot_step == 2);
  world.saved_it();
  CHECK(world.running == std::map<int64_t, int64_t>{{0, 2}, {1, 2}});
  world.settle();
  CHECK(world.finished);
  CHECK(world.snapshots == 3);  // 2, 4, and 5, the end
  CHECK(world.snapshot_step == 5);
}

TEST_CASE("without an interval there is one checkpoint, at the end") {
  World world(plan_of({0, 1}, 4, 0));
  world.settle();
  CHECK(world.finished);
  CHECK(world.snapshots == 1);
  CHECK(world.snapshot_step == 4);
}

TEST_CASE("training that goes on from a checkpoint takes the next one at the next multiple") {
  World world(plan_of({0, 1}, 10, 4), {{0, 5}, {1, 5}});
  CHECK(world.running == std::map<int64_t, int64_t>{{0, 5}, {1, 5}});
  for (int i = 0; i < 3; ++i) world.done(0);
  for (int i = 0; i < 3; ++i) world.done(1);
  CHECK(world.snapshotting);
  CHECK(world.snapshot_step == 8);
}

TEST_CASE("the mean loss is that of the newest step of each slot") {
  World world(plan_of({0, 1}, 5, 0, false));
  CHECK(world.loop.mean_loss() == 0);
  world.done(0, 3.0);
  CHECK(world.loop.mean_loss() == 3.0);
  world.done(1, 5.0);
  world.done(0, 2.0);
  CHECK(world.loop.mean_loss() == 3.5);
}

TEST_CASE("a failed step is run again after 20 ms, then 40, up to a second") {
  World world(plan_of({0, 1}, 3, 0, false));
  for (const int wait : {20, 40, 80, 160, 320, 640, 1000, 1000}) {
    world.fail(0, Errc::peer_lost);
    world.wait(Millis(wait - 1));
    CHECK(world.running.count(0) == 0);
    world.wait(Millis(1));
    CHECK(world.running.at(0) == 0);
  }
  CHECK(world.told.size() == 1);  // once a step, not once a try
  world.done(0);
  world.fail(0, Errc::timeout);
  world.wait(Millis(20));  // a step that succeeded ends the row of failures
  CHECK(world.running.at(0) == 1);
  CHECK(world.told.size() == 2);
}

TEST_CASE("a failure that a retry cannot mend ends training when all slots are idle") {
  for (const Errc errc : {Errc::invalid_argument, Errc::bad_data, Errc::kernel_failed,
                          Errc::internal, Errc::out_of_memory, Errc::io}) {
    World world(plan_of({0, 1, 2}, 3, 0, false));
    world.fail(1, errc, "the data is bad");
    CHECK(world.cancels == 1);
    CHECK(!world.failed);
    world.done(0);
    CHECK(!world.failed);
    world.fail(2, Errc::cancelled);
    CHECK(world.failed);
    CHECK(world.code == errc);
    CHECK(world.text == "step 0 of slot 1: the data is bad");
  }
}

TEST_CASE("training ends when steps have failed for longer than patience lasts") {
  World world(plan_of({0}, 3, 0, false));
  world.done(0);
  const Millis since = world.now;
  for (int i = 0; i < 1000 && !world.failed; ++i) {
    if (!world.running.empty()) world.fail(0, Errc::peer_lost);
    if (!world.failed) world.wait(Millis(50));
  }
  CHECK(world.failed);
  CHECK(world.code == Errc::peer_lost);
  CHECK(world.now - since >= Millis(10'000));
  CHECK(world.now - since <= Millis(10'100));
  CHECK(world.text.find("no progress for 10000 ms") != std::string::npos);
}

TEST_CASE(
    "patience does not run out while a step is running, nor while another slot makes progress") {
  World world(plan_of({0, 1}, 100, 0, false));
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

TEST_CASE("lost shards end running steps, and every slot goes back to the restored step") {
  World world(plan_of({0, 1}, 9, 2));
  for (int i = 0; i < 2; ++i) world.done(0);
  for (int i = 0; i < 2; ++i) world.done(1);
  world.saved_it();
  world.done(0);
  world.lose();
  CHECK(world.cancels == 1);
  CHECK(!world.restoring);
  world.fail(0, Errc::cancelled);
  world.done(1);  // too late to count
  CHECK(world.restoring);
  CHECK(world.loop.recoveries() == 1);
  world.restored();
  CHECK(world.running == std::map<int64_t, int64_t>{{0, 2}, {1, 2}});
  CHECK(world.told.back() == "shards restored at step 2; the 1 steps since are done again");
  world.settle();
  CHECK(world.finished);
}

TEST_CASE("shards that are lost before the first checkpoint start from the beginning") {
  World world(plan_of({0, 1}, 3, 0));
  world.done(0);
  world.lose();
  world.done(0);
  world.done(1);
  world.restored();
  CHECK(world.running == std::map<int64_t, int64_t>{{0, 0}, {1, 0}});
  world.settle();
  CHECK(world.finished);
}

TEST_CASE("shards that are lost during a checkpoint are restored when the checkpoint has ended") {
  for (const Errc errc : {Errc::ok, Errc::peer_lost, Errc::io}) {
    World world(plan_of({0}, 4, 2));
    world.done(0);
    world.done(0);
    REQUIRE(world.snapshotting);
    world.lose();
    CHECK(world.cancels == 1);
    CHECK(!world.restoring);
    world.saved_it(errc);
    CHECK(world.restoring);
    world.restored();
    CHECK(world.running == std::map<int64_t, int64_t>{{0, errc == Errc::ok ? 2 : 0}});
    world.settle();
    CHECK(world.finished);
  }
}

TEST_CASE(
    "shards that are lost while others are restored are restored again, one restore at a time") {
  World world(plan_of({0}, 4, 2));
  world.lose();
  world.fail(0, Errc::peer_lost);
  REQUIRE(world.restoring);
  world.lose();
  CHECK(world.restores == 1);
  SUBCASE("after one that succeeded") { world.restored(); }
  SUBCASE("after one that failed") {
    world.not_restored(Errc::peer_lost);
    world.wait(Millis(20));
  }
  CHECK(world.restoring);
  CHECK(world.restores == 2);
  CHECK(world.running.empty());
  world.restored();
  CHECK(world.running.at(0) == 0);
  CHECK(world.loop.recoveries() == 2);
}

TEST_CASE("shards that are lost while steps are being ended are restored once") {
  World world(plan_of({0, 1}, 4, 2));
  world.lose();
  world.lose();
  world.fail(0, Errc::peer_lost);
  world.lose();
  world.fail(1, Errc::peer_lost);
  CHECK(world.restores == 1);
  world.restored();
  world.settle();
  CHECK(world.restores == 1);
}

TEST_CASE("shards that are lost when training has ended or is failing are nobody's loss") {
  World world(plan_of({0, 1}, 1, 0, false));
  world.fail(0, Errc::internal);
  world.take(world.loop.shards_lost("ps 0 is gone", world.now));
  world.fail(1, Errc::cancelled);
  CHECK(world.failed);
  CHECK(world.restores == 0);
  CHECK(world.loop.shards_lost("ps 0 is gone", world.now).empty());
  CHECK(world.loop.tick(world.now + Millis(1'000'000)).empty());
}

TEST_CASE("a restore that fails is tried again by and by, until patience ends") {
  World world(plan_of({0}, 4, 2));
  world.lose();
  world.fail(0, Errc::peer_lost);
  for (const int wait : {20, 40, 80, 160, 320, 640, 1000}) {
    REQUIRE(world.restoring);
    world.not_restored(Errc::peer_lost);
    world.wait(Millis(wait - 1));
    CHECK(!world.restoring);
    world.wait(Millis(1));
  }
  for (int i = 0; i < 1000 && !world.failed; ++i)
    if (world.restoring)
      world.not_restored(Errc::timeout);
    else
      world.wait(Millis(50));
  CHECK(world.failed);
  CHECK(world.code == Errc::timeout);
  CHECK(world.text == "the shards could not be restored: not there");
}

TEST_CASE("a restore that cannot be mended ends training") {
  World world(plan_of({0}, 4, 2));
  world.lose();
  world.fail(0, Errc::peer_lost);
  world.not_restored(Errc::bad_data);
  CHECK(world.failed);
  CHECK(world.code == Errc::bad_data);
}

TEST_CASE(
    "a checkpoint that fails for a passing reason is tried again by and by, until patience ends") {
  World world(plan_of({0}, 4, 2));
  world.done(0);
  world.now += Millis(20'000);  // a long step
  world.done(0);
  const size_t told = world.told.size();
  world.now += Millis(20'000);  // a long checkpoint
  const Millis since = world.now;
  for (const int wait : {20, 40, 80, 160}) {
    REQUIRE(world.snapshotting);
    world.saved_it(Errc::peer_lost);
    CHECK(world.running.empty());
    world.wait(Millis(wait - 1));
    CHECK(!world.snapshotting);
    world.wait(Millis(1));
  }
  CHECK(world.told.size() == told + 1);
  SUBCASE("then it may succeed") {
    world.saved_it();
    CHECK(world.running.at(0) == 2);
    world.done(0);
    world.done(0);
    world.saved_it(Errc::timeout);
    world.wait(Millis(20));  // the row of failures ended with the last success
    CHECK(world.snapshotting);
    world.settle();
    CHECK(world.finished);
  }
  SUBCASE("or never") {
    for (int i = 0; i < 1000 && !world.failed; ++i)
      if (world.snapshotting)
        world.saved_it(Errc::peer_lost);
      else
        world.wait(Millis(50));
    CHECK(world.failed);
    CHECK(world.code == Errc::peer_lost);
    CHECK(world.now - since >= Millis(10'000));
    CHECK(world.now - since <= Millis(12'000));
  }
}

TEST_CASE("slots go on as soon as the state is captured, while its files are written") {
  World world(plan_of({0, 1}, 6, 2));
  for (int i = 0; i < 2; ++i) world.done(0);
  for (int i = 0; i < 2; ++i) world.done(1);
  REQUIRE(world.snapshotting);
  CHECK(world.running.empty());
  world.capture();
  CHECK(world.running == std::map<int64_t, int64_t>{{0, 2}, {1, 2}});
  for (int i = 0; i < 2; ++i) world.done(0);
  for (int i = 0; i < 2; ++i) world.done(1);
  CHECK(world.running.empty());  // the next checkpoint waits for the one before
  CHECK(world.snapshots == 1);
  world.wait(Millis(60'000));  // and a slow disk is no lack of progress
  CHECK(!world.ended());
  world.saved_it();
  CHECK(world.saved == std::map<int64_t, int64_t>{{0, 2}, {1, 2}});
  CHECK(world.snapshot_step == 4);
  CHECK(world.snapshots == 2);
  world.settle();
  CHECK(world.finished);
}

TEST_CASE("training ends when its last checkpoint is on disk, not when it is captured") {
  World world(plan_of({0}, 2, 0));
  world.done(0);
  world.done(0);
  world.capture();
  CHECK(!world.ended());
  world.saved_it();
  CHECK(world.finished);
}

TEST_CASE("a checkpoint that the disk refuses is told, and training goes on without it") {
  World world(plan_of({0}, 6, 2));
  for (const bool captured : {false, true}) {
    world.done(0);
    world.done(0);
    if (captured) world.capture();
    if (captured) world.done(0);
    world.saved_it(Errc::io);
    CHECK(world.told.back() ==
          detail::concat("no checkpoint of step ", captured ? 4 : 2,
                         "; the one before is kept, and training goes on: the answer"));
    CHECK(world.running.at(0) == (captured ? 5 : 2));
  }
  world.settle();
  CHECK(world.finished);
}

TEST_CASE("a checkpoint that was captured is not taken again when its files fail for a while") {
  World world(plan_of({0}, 4, 2));
  world.done(0);
  world.done(0);
  world.capture();
  world.done(0);
  world.saved_it(Errc::timeout);
  CHECK(world.running.at(0) == 3);
  CHECK(world.snapshots == 1);
  world.settle();
  CHECK(world.finished);
}

TEST_CASE(
    "training fails when its last checkpoint cannot be written, and says that steps are done") {
  for (const bool captured : {false, true}) {
    World world(plan_of({0}, 2, 0));
    world.done(0);
    world.done(0);
    if (captured) world.capture();
    SUBCASE("for good") {
      world.saved_it(Errc::io);
      CHECK(world.failed);
      CHECK(world.code == Errc::io);
      CHECK(world.text ==
            "all steps are done, but the checkpoint of the last one, 2, could not be written: the "
            "answer");
    }
    SUBCASE("unless a later attempt succeeds") {
      world.saved_it(Errc::timeout);
      world.wait(Millis(20));
      REQUIRE(world.snapshotting);
      CHECK(world.snapshots == 2);
      world.saved_it();
      CHECK(world.finished);
    }
  }
}

TEST_CASE("shards that are lost while files are written are restored when the writing has ended") {
  World world(plan_of({0}, 4, 2));
  world.done(0);
  world.done(0);
  world.capture();
  world.lose();
  world.fail(0, Errc::cancelled);
  CHECK(!world.restoring);
  world.saved_it();
  CHECK(world.restoring);
  world.restored();
  CHECK(world.running.at(0) == 2);
  world.settle();
  CHECK(world.finished);
}

TEST_CASE("training that is abandoned ends with that reason when all slots are idle") {
  World world(plan_of({0, 1}, 4, 2));
  SUBCASE("while steps run") {
    world.take(world.loop.abandon(Errc::cancelled, "enough", world.now));
    CHECK(world.cancels == 1);
    world.done(0);
    CHECK(!world.failed);
    world.fail(1, Errc::cancelled);
  }
  SUBCASE("while shards are restored") {
    world.lose();
    world.fail(0, Errc::peer_lost);
    world.fail(1, Errc::peer_lost);
    REQUIRE(world.restoring);
    world.take(world.loop.abandon(Errc::cancelled, "enough", world.now));
    CHECK(!world.failed);
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
    CHECK(!world.failed);
    world.saved_it();
  }
  CHECK(world.failed);
  CHECK(world.code == Errc::cancelled);
  CHECK(world.text == "enough");
}

TEST_CASE("answers that nobody asked for change nothing") {
  World world(plan_of({0}, 4, 2));
  CHECK(world.loop.snapshot_taken(Errc::ok, "", world.now).empty());
  CHECK(world.loop.restored({{0, 3}}, world.now).empty());
  CHECK(world.loop.restore_failed(Errc::bad_data, "", world.now).empty());
  world.settle();
  CHECK(world.finished);
}

TEST_CASE(
    "random failures never start a step out of order, and training finishes or says why it "
    "failed") {
  int finished = 0, failed = 0, recoveries = 0;
  for (uint32_t seed = 1; seed <= 2000; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    const auto chance = [&](uint32_t percent) { return random() % 100 < percent; };
    std::vector<int64_t> slots;
    for (uint32_t i = 0; i < 1 + random() % 4; ++i) slots.push_back(i);
    World world(plan_of(slots, static_cast<int64_t>(random() % 12),
                        static_cast<int64_t>(random() % 5), chance(80)));
    const std::vector<Errc> passing = {Errc::peer_lost, Errc::timeout, Errc::cancelled,
                                       Errc::stale};
    const auto pass = [&] { return passing[random() % passing.size()]; };
    const bool hopeless = chance(10);
    for (int i = 0; i < 400 && !world.ended(); ++i) {
      if (chance(5) && world.cancels == 0) {
        world.lose();
        continue;
      }
      if (world.restoring) {
        if (chance(30))
          world.not_restored(hopeless && chance(20) ? Errc::bad_data : pass());
        else
          world.restored();
      } else if (world.snapshotting && !world.captured && chance(50)) {
        world.capture();
      } else if (world.snapshotting && (!world.captured || chance(30))) {
        const bool last = world.snapshot_step >= world.plan.steps;
        world.saved_it(chance(20) ? pass() : chance(10) && !last ? Errc::io : Errc::ok);
      } else if (!world.running.empty() && chance(85)) {
        const int64_t slot = std::next(world.running.begin(),
                                       static_cast<std::ptrdiff_t>(random() % world.running.size()))
                                 ->first;
        if (chance(15))
          world.fail(slot, hopeless && chance(5) ? Errc::kernel_failed : pass());
        else
          world.done(slot);
      } else {
        world.wait(Millis(random() % 100));
      }
    }
    world.settle();
    finished += world.finished;
    failed += world.failed;
    recoveries += static_cast<int>(world.loop.recoveries());
    if (world.failed) REQUIRE(!world.text.empty());
    if (!hopeless && world.failed) REQUIRE(world.text.find("no progress") != std::string::npos);
  }
  CHECK(finished > 1500);
  CHECK(failed > 5);
  CHECK(recoveries > 500);
}

}  // namespace
}  // namespace troupe
