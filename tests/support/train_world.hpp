// TrainWorld: a world of slots and shards around a TrainLoop. It carries orders out in thought,
// checks that each makes sense, and gives the answers that a test wants.
#pragma once

#include <doctest/doctest.h>

#include <map>
#include <string>
#include <vector>

#include "training/train_loop.hpp"

namespace troupe {

using Millis = TrainLoop::Millis;

inline TrainLoop::Plan plan_of(std::vector<int64_t> slots, int64_t steps, int64_t every = 0,
                               bool checkpoints = true) {
  TrainLoop::Plan plan;
  plan.slots = std::move(slots);
  plan.steps = steps;
  plan.checkpoint_every = every;
  plan.checkpoints = checkpoints;
  plan.patience = Millis(10'000);
  return plan;
}

struct TrainWorld {
  explicit TrainWorld(TrainLoop::Plan p, std::map<int64_t, int64_t> from = {})
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
        case TrainOrder::ask_epoch:
          REQUIRE(plan.follows);
          REQUIRE(!asking);
          asking = true;
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
  void epoch_found(bool is_new) {
    asking = false;
    if (is_new) lost = true;
    take(loop.epoch_found(is_new, now));
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
       failed = false, asking = false;
  int64_t snapshot_step = -1;
  int cancels = 0, snapshots = 0, restores = 0;
  std::vector<std::string> told;
  Errc code = Errc::ok;
  std::string text;
};

}  // namespace troupe
