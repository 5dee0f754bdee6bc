// PresetFaults: adds faults of one kind or a few to a plan, as the presets and their tests want
// them.
#pragma once

#include <string>

#include "chaos/fault_plan.hpp"
#include "graph/base/fail_point.hpp"

namespace troupe::sim {

class PresetFaults {
 public:
  explicit PresetFaults(FaultPlan& plan) : draw(plan.draw), plan_(plan) {}

  Draw& draw;

  // Each: so many faults, in mid-training.
  void kill_workers(int64_t n) {
    for (; n > 0; --n)
      plan_.in_training(FaultKind::kill, plan_.worker(), Fault::kAny, draw.between(20, 800));
  }
  void kill_ps(int64_t n) {
    for (; n > 0; --n)
      plan_.in_training(FaultKind::kill, plan_.ps(), Fault::kAny, draw.between(20, 800));
  }
  void kill_programs(int64_t n) {
    for (; n > 0; --n)
      plan_.in_training(FaultKind::kill, plan_.client(), Fault::kAny, draw.between(20, 800));
  }
  // All others take the worker for lost, if it does nothing for long enough.
  void freeze_workers(int64_t n) {
    for (; n > 0; --n)
      plan_.in_training(FaultKind::freeze, plan_.worker(), Fault::kAny, draw.between(200, 4000));
  }
  // Workers end for good, leave, or are away for longer than their replicas wait for them.
  void lose_workers(int64_t n) {
    for (; n > 0; --n) {
      const FaultKind kinds[] = {FaultKind::gone, FaultKind::leave, FaultKind::kill,
                                 FaultKind::freeze};
      const FaultKind kind = kinds[draw.below(std::size(kinds))];
      const bool lasts = kind == FaultKind::kill || kind == FaultKind::freeze;
      plan_.in_training(kind, plan_.worker(), Fault::kAny, lasts ? draw.between(500, 8000) : 0);
    }
  }
  // Links between a worker and the next one.
  void cut_workers(int64_t n) {
    const SimShape& in = plan_.shape();
    for (; n > 0; --n) {
      const int a = plan_.worker(), b = in.ps + (a - in.ps + 1) % in.workers;
      plan_.in_training(draw.chance(0.3) ? FaultKind::cut_from : FaultKind::cut, a, b,
                        draw.between(500, 5000));
    }
  }
  // Nobody dies: a link of a ps ends or is silent for a while, to a worker or a client, or that
  // client does nothing for a while, so that all others take it for lost.
  void lose_ps_links(int64_t n) {
    for (; n > 0; --n) {
      const int other = draw.chance(0.3) ? plan_.worker() : plan_.client();
      const bool may_freeze = other >= plan_.shape().servers();
      const int64_t lasts = draw.between(200, 4000);
      switch (draw.below(may_freeze ? 3 : 2)) {
        case 0:
          plan_.in_training(FaultKind::reset, plan_.ps(), other, 0);
          break;
        case 1:
          plan_.in_training(plan_.any_cut(), plan_.ps(), other, lasts);
          break;
        default:
          plan_.in_training(FaultKind::freeze, other, Fault::kAny, lasts);
      }
    }
  }
  // Shares of the messages, in percent.
  void lose_messages(int64_t dropped, int64_t doubled, int64_t overtaken) {
    const auto some = [this](FaultKind kind, int64_t percent) {
      for (int64_t n = plan_.calm().messages * percent / 100 + 1; n > 0 && percent > 0; --n)
        plan_.in_training(kind, Fault::kAny, Fault::kAny, 0);
    };
    some(FaultKind::drop, dropped);
    some(FaultKind::twice, doubled);
    some(FaultKind::overtake, overtaken);
  }
  void lose_messages() {
    const int64_t dropped = draw.between(1, 15), doubled = draw.between(1, 15);
    lose_messages(dropped, doubled, draw.between(0, 15));
  }
  void lose_disk(int64_t n) {
    for (; n > 0; --n)
      if (draw.chance(0.5))
        plan_.in_training(FaultKind::disk_full, plan_.writer(), Fault::kAny,
                          draw.between(50, 3000));
      else
        plan_.in_training(FaultKind::disk_error, plan_.writer(), Fault::kAny, draw.between(0, 30));
  }
  void fail_power(int64_t n) {
    for (; n > 0; --n)
      plan_.in_training(FaultKind::power, Fault::kAny, Fault::kAny, draw.between(20, 800));
  }
  void corrupt_frames(int64_t n) {
    for (; n > 0; --n)
      plan_.in_training(plan_.damage(), Fault::kAny, Fault::kAny, draw.between(0, 1 << 20));
  }
  // Processes die, stand still, meet errors or lose messages at their fail points.
  void reach_points(int64_t n) {
    for (; n > 0; --n) reach_point();
  }
  // The folder of checkpoints goes with each kill of a ps so far.
  void lose_folders() { plan_.lose_folders(); }
  // Any process but the program dies between its first call and its first step.
  void kill_at_start() {
    plan_.put({draw.between(plan_.calm().prepared, plan_.calm().begun), FaultKind::kill,
               plan_.server(), Fault::kAny, draw.between(20, 800)});
  }
  // A worker and a ps have no link to each other at first.
  void cut_at_start() {
    const int a = plan_.ps();
    plan_.put({0, FaultKind::cut, a, plan_.worker(), 5000});
  }
  void swarm() { plan_.swarm(); }

 private:
  void reach_point() {
    const auto row = static_cast<size_t>(draw.below(kFailPoints.size()));
    const std::string name = kFailPoints[row].name;
    const auto is = [&name](const char* begin) { return name.starts_with(begin); };
    std::string action = draw.chance(0.3) ? "sleep:" : "die";
    if (action == "sleep:") action += std::to_string(draw.between(100, 3000));
    if (kFailPoints[row].drops && draw.chance(0.5)) action = "drop";
    if (kFailPoints[row].error == Errc::io && draw.chance(0.5)) action = "error";
    const int who = is("agent.") ? plan_.worker()
                    : is("shard.") || name == "checkpoint.before_read" || is("checkpoint.shard")
                        ? plan_.ps()
                    : is("master.") || is("group.") || is("checkpoint.") ? plan_.client()
                                                                         : plan_.anybody();
    const int64_t from = draw.chance(0.2) ? 0 : plan_.calm().begun;
    Fault fault{draw.between(from, plan_.calm().ended), FaultKind::point, who};
    fault.order = detail::concat(name, "=", action, "@", draw.between(1, 4), "x1");
    plan_.put(std::move(fault));
  }

  FaultPlan& plan_;
};

}  // namespace troupe::sim
