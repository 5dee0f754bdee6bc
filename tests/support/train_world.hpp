// TrainWorld: replicas and shards around a TrainLoop, as counts. It checks that each action of the
// loop fits the state of the world, and gives the answers that a test wants.
#pragma once

#include <doctest/doctest.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "training/loop/train_loop.hpp"

namespace troupe {

using Millis = TrainLoop::Millis;

inline TrainLoop::Plan plan_of(std::vector<int64_t> replicas, int64_t steps, int64_t every = 0,
                               bool checkpoints = true) {
  TrainLoop::Plan plan{.replicas = std::move(replicas),
                       .steps = steps,
                       .checkpoint_every = every,
                       .checkpoints = checkpoints,
                       .patience = Millis(10'000)};
  return plan;
}

struct TrainWorld {
  using Steps = std::map<int64_t, int64_t>;  // by replica

  explicit TrainWorld(TrainLoop::Plan p, Steps from = {}) : plan(std::move(p)), loop(plan, from) {
    for (int64_t replica : plan.replicas) next[replica] = from.count(replica) ? from[replica] : 0;
    saved = next;
    take(loop.begin(now));
  }

  void take(const TrainActions& list) {
    REQUIRE((list.empty() || !ended()));
    for (const TrainAction& action : list) {
      check(action);
      carry_out(action);
      actions.push_back(action);
    }
    REQUIRE(loop.ended() == ended());
  }

  // The actions so far.
  int count(TrainAction::Kind kind) const { return static_cast<int>(steps_of(kind).size()); }
  std::vector<int64_t> steps_of(TrainAction::Kind kind) const {
    std::vector<int64_t> out;
    for (const TrainAction& a : actions)
      if (a.kind == kind) out.push_back(a.step);
    return out;
  }
  std::vector<std::string> told() const {
    std::vector<std::string> out;
    for (const TrainAction& a : actions)
      if (a.kind == TrainAction::tell) out.push_back(a.text);
    return out;
  }
  const TrainAction& last() const { return actions.back(); }
  bool finished() const { return !actions.empty() && last().kind == TrainAction::finish; }
  bool failed() const { return !actions.empty() && last().kind == TrainAction::fail; }
  bool ended() const { return finished() || failed(); }
  bool waits_for(TrainAction::Kind kind) const { return open == kind; }
  bool asking() const { return asked_at.has_value(); }

  // Answers to actions.
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
    captured = next;
    shards.captured_scale = shards.scale;
    take(loop.checkpoint_captured(now));
  }
  void saved_it(Errc errc = Errc::ok) {
    if (errc == Errc::ok && !captured) capture();
    open.reset();
    if (errc == Errc::ok) saved = *captured, shards.saved_scale = shards.captured_scale;
    take(loop.checkpoint_ended(errc, "the answer", now));
  }
  void paused(bool more = true) {
    open.reset();
    take(loop.pause_ended(more, now));
  }
  void pause_failed(Errc errc, const std::string& why = "why") {
    open.reset();
    take(loop.pause_failed(errc, why, now));
  }
  // The step from which it is going to hold.
  int64_t ask(TermChange change) {
    take(loop.ask(change, now));
    return change.step;
  }
  int64_t ask_rule(const Aggregation& wanted, int64_t step = 0) {
    return ask({.rule = wanted, .step = step});
  }
  int64_t ask_scale(double wanted, int64_t step = 0) {
    return ask({.rule = {}, .rate_scale = wanted, .step = step});
  }
  void told_terms(Errc errc = Errc::ok) {
    changing.reset();
    if (errc == Errc::ok) {
      shards.rule = loop.terms().rules.telling().value_or(shards.rule);
      shards.scale = loop.terms().scales.telling().value_or(shards.scale);
    }
    take(loop.terms_told(errc, "the answer", now));
  }
  void restored() {
    const int64_t step = saved.begin()->second;
    shards.rule = loop.terms().rules.at(step);
    shards.scale = loop.terms().scales.change_at(step).value_or(shards.saved_scale);
    open.reset();
    cancels = 0;
    next = saved;
    take(loop.restored(saved, now));
  }
  void kept() {
    open.reset();
    cancels = 0;
    take(loop.shards_kept(now));
  }
  void not_restored(Errc errc) {
    open.reset();
    take(loop.restore_failed(errc, "not there", now));
  }
  void epoch_found(bool is_new) {
    if (is_new && asked_at == loop.recoveries()) lost = true;  // else they were restored meanwhile
    asked_at.reset();
    take(loop.epoch_found(is_new, now));
  }
  void source_found(Millis since) {
    asks_source = false;
    take(loop.source_found(since, now));
  }
  void wait(Millis time) {
    now += time;
    take(loop.tick(now));
  }
  // Each restore fails so from here, until the training gives up.
  void never_restored(Errc errc) {
    for (int i = 0; i < 1000 && !failed(); ++i)
      if (waits_for(TrainAction::restore))
        not_restored(errc);
      else
        wait(Millis(50));
    REQUIRE(failed());
  }
  // All goes well from here.
  void settle() {
    for (int i = 0; i < 100'000 && !ended(); ++i) {
      if (waits_for(TrainAction::restore))
        restored();
      else if (changing)
        told_terms();
      else if (waits_for(TrainAction::checkpoint))
        saved_it();
      else if (waits_for(TrainAction::pause))
        paused();
      else if (!running.empty())
        done(running.begin()->first);
      else
        wait(Millis(50));
    }
    REQUIRE(ended());
  }

  void check(const TrainAction& a) const {
    REQUIRE(!ended());
    const bool idle = running.empty() && !open && !changing;
    switch (a.kind) {
      case TrainAction::start:
        REQUIRE((!open || (waits_for(TrainAction::checkpoint) && captured)));
        REQUIRE(!changing);
        REQUIRE(shards.rule == loop.terms().rules.at(a.step));
        REQUIRE(shards.scale == loop.terms().scales.at(a.step));
        REQUIRE(!lost);  // a step on shards that are gone would be for nothing
        REQUIRE(running.count(a.replica) == 0);
        REQUIRE(a.step == next.at(a.replica));  // in order, none twice unless rolled back
        REQUIRE(a.step < plan.steps);
        break;
      case TrainAction::cancel:
        REQUIRE(!idle);
        REQUIRE(!waits_for(TrainAction::restore));
        break;
      case TrainAction::checkpoint:
        REQUIRE((idle && !lost));
        for (const auto& [replica, its] : next) REQUIRE(its >= a.step);
        break;
      case TrainAction::give_up_checkpoint:
        REQUIRE((lost && waits_for(TrainAction::checkpoint)));
        break;
      case TrainAction::pause:
        REQUIRE((idle && !lost));
        for (const auto& [replica, its] : next) REQUIRE(its == a.step);
        break;
      case TrainAction::change_terms:
        REQUIRE((running.empty() && !changing && !lost));
        REQUIRE((!open || (waits_for(TrainAction::checkpoint) && captured)));
        for (const auto& [replica, its] : next) REQUIRE(its == a.step);
        break;
      case TrainAction::restore:
      case TrainAction::fail:
        REQUIRE(idle);
        break;
      case TrainAction::ask_epoch:
        REQUIRE(plan.follows);
        REQUIRE(!asked_at);
        break;
      case TrainAction::ask_source:
        REQUIRE(plan.reads);
        REQUIRE(!asks_source);
        break;
      case TrainAction::finish:
        REQUIRE(idle);
        for (const auto& [replica, step] : next) REQUIRE(step == loop.done_steps());
        break;
      case TrainAction::tell:
        REQUIRE(!a.text.empty());
        break;
    }
  }
  void carry_out(const TrainAction& a) {
    if (a.kind == TrainAction::start) running[a.replica] = a.step;
    if (a.kind == TrainAction::cancel) ++cancels;
    if (a.kind == TrainAction::ask_epoch) asked_at = loop.recoveries();
    if (a.kind == TrainAction::ask_source) asks_source = true;
    if (a.kind == TrainAction::change_terms) changing = a.step;
    if (a.kind == TrainAction::checkpoint) captured.reset();
    if (a.kind == TrainAction::restore) lost = false;  // a loss from now on is another one
    if (a.kind == TrainAction::checkpoint || a.kind == TrainAction::pause ||
        a.kind == TrainAction::restore)
      open = a.kind;
  }

  TrainLoop::Plan plan;
  TrainLoop loop;
  Millis now{1'000};
  Steps next, saved, running;
  std::optional<Steps> captured;          // by the newest checkpoint
  std::optional<TrainAction::Kind> open;  // the checkpoint, pause or restore without an answer
  std::optional<int64_t> changing;        // the step of a change of terms without an answer
  struct Shards {
    Aggregation rule;
    double scale = 1;  // of their rates
    double captured_scale = 1,
           saved_scale = 1;  // by the newest checkpoint; by the newest whole one
  } shards{plan.rule};
  std::optional<int64_t> asked_at;  // recoveries when the epoch was asked for
  bool asks_source = false;
  bool lost = false;  // shards, that no restore has answered
  int cancels = 0;    // since the last restore
  TrainActions actions;
};

}  // namespace troupe
