// TrainWorld: a world of replicas and shards around a TrainLoop. It carries orders out in thought,
// checks that each makes sense, and gives the answers that a test wants.
#pragma once

#include <doctest/doctest.h>

#include <map>
#include <string>
#include <vector>

#include "training/loop/train_hands.hpp"

namespace troupe {

using Millis = TrainLoop::Millis;

inline TrainLoop::Plan plan_of(std::vector<int64_t> replicas, int64_t steps, int64_t every = 0,
                               bool checkpoints = true) {
  TrainLoop::Plan plan;
  plan.replicas = std::move(replicas);
  plan.steps = steps;
  plan.checkpoint_every = every;
  plan.checkpoints = checkpoints;
  plan.patience = Millis(10'000);
  return plan;
}

struct TrainWorld final : TrainHands {
  explicit TrainWorld(TrainLoop::Plan p, std::map<int64_t, int64_t> from = {})
      : plan(std::move(p)), loop(plan, from) {
    for (int64_t replica : plan.replicas) next[replica] = from.count(replica) ? from[replica] : 0;
    saved = next;
    take(loop.begin(now));
  }

  void take(const TrainOrders& orders) {
    REQUIRE((orders.empty() || !ended()));
    carry_out(orders);
    REQUIRE(loop.ended() == ended());
  }
  bool ended() const { return finished || failed; }

  // Answers to orders.
  void done(int64_t replica, double loss = 1.0) {
    const int64_t step = running.at(replica);
    running.erase(replica);
    next[replica] = step + 1;
    take(loop.step_done(replica, step, loss, now));
  }
  void fail(int64_t replica, Errc errc, const std::string& why = "why") {
    const int64_t step = running.at(replica);
    running.erase(replica);
    take(loop.step_failed(replica, step, errc, why, now));
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
  void paused(bool more = true) {
    pausing = false;
    take(loop.pause_ended(more, now));
  }
  void pause_failed(Errc errc, const std::string& why = "why") {
    pausing = false;
    take(loop.pause_failed(errc, why, now));
  }
  void restored() {
    restoring = false;
    cancels = 0;
    next = saved;
    take(loop.restored(saved, now));
  }
  void kept() {
    restoring = false;
    cancels = 0;
    take(loop.shards_kept(now));
  }
  void not_restored(Errc errc) {
    restoring = false;
    take(loop.restore_failed(errc, "not there", now));
  }
  void epoch_found(bool is_new) {
    asking = false;
    if (is_new && asked_at == loop.recoveries()) lost = true;  // else they were restored meanwhile
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
      else if (pausing)
        paused();
      else if (!running.empty())
        done(running.begin()->first);
      else
        wait(Millis(50));
    }
    REQUIRE(ended());
  }

  // Orders.
  void start_step(int64_t replica, int64_t step) override {
    REQUIRE((!snapshotting || captured));
    REQUIRE(!restoring);
    REQUIRE(!pausing);
    REQUIRE(!ended());
    REQUIRE(!lost);  // a step on shards that are gone would be for nothing
    REQUIRE(running.count(replica) == 0);
    REQUIRE(step == next.at(replica));  // in order, none twice unless rolled back
    REQUIRE(step < plan.steps);
    running[replica] = step;
  }
  void cancel() override {
    REQUIRE((!running.empty() || snapshotting || pausing));
    ++cancels;
  }
  void take_snapshot(int64_t step) override {
    require_idle();
    REQUIRE(!lost);
    for (const auto& [replica, its] : next) REQUIRE(its >= step);
    snapshotting = true;
    captured = false;
    snapshot_step = step;
    ++snapshots;
  }
  void pause(int64_t step) override {
    require_idle();
    REQUIRE(!lost);
    for (const auto& [replica, its] : next) REQUIRE(its == step);
    pausing = true;
    pauses.push_back(step);
  }
  void restore() override {
    require_idle();
    restoring = true;
    ++restores;
    lost = false;  // what is lost from now on is lost again
  }
  void ask_epoch() override {
    REQUIRE(plan.follows);
    REQUIRE(!asking);
    asking = true;
    asked_at = loop.recoveries();
  }
  void finish() override {
    require_idle();
    for (const auto& [replica, step] : next) REQUIRE(step == loop.done_steps());
    finished = true;
  }
  void give_up(Errc why, const std::string& words) override {
    require_idle();
    failed = true;
    code = why;
    text = words;
  }
  void tell(Errc, const std::string& words) override {
    REQUIRE(!words.empty());
    told.push_back(words);
  }
  void require_idle() const {
    REQUIRE(running.empty());
    REQUIRE(!snapshotting);
    REQUIRE(!pausing);
    REQUIRE(!restoring);
    REQUIRE(!ended());
  }

  TrainLoop::Plan plan;
  TrainLoop loop;
  Millis now{1'000};
  std::map<int64_t, int64_t> next, saved, image, running;
  bool snapshotting = false, captured = false, restoring = false, lost = false, finished = false,
       failed = false, asking = false, pausing = false;
  int64_t snapshot_step = -1, asked_at = -1;
  int cancels = 0, snapshots = 0, restores = 0;
  std::vector<int64_t> pauses;
  std::vector<std::string> told;
  Errc code = Errc::ok;
  std::string text;
};

}  // namespace troupe
