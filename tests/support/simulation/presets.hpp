// The presets: simulated trainings by name, each with the options and the kinds of faults that its
// seeds draw.
#pragma once

#include <string>
#include <vector>

#include "tests/support/simulation/sim_training.hpp"

namespace troupe::sim {

struct Preset {
  std::string name;
  uint64_t seeds;  // that the tests run
  DrawOptions options;
  AddFaults faults;
};

inline void checkpoints(Draw& draw, SimClusterOptions& o) {
  o.checkpoint_every = draw.between(1, 3);
}
inline void kill_ps(PresetFaults& plan) { plan.kill_ps(plan.draw.between(1, 2)); }
inline void lose_ps_links(PresetFaults& plan) { plan.lose_ps_links(plan.draw.between(1, 3)); }
// Messages are lost, so many workers die, and perhaps a ps.
inline AddFaults lose_and_kill(int64_t least, int64_t most) {
  return [least, most](PresetFaults& plan) {
    plan.lose_messages();
    plan.kill_workers(plan.draw.between(least, most));
    plan.kill_ps(plan.draw.between(0, 1));
  };
}
// Rounds of local steps, which whole trainings have, by an optimizer that can begin anew in each.
inline void local_steps(Draw& draw, SimClusterOptions& o) {
  o.rule = {.kind = Aggregation::Kind::local, .bound = draw.between(1, 4)};
  if (draw.chance(0.5)) o.rule.outer_rate = 0.7, o.rule.outer_momentum = 0.9;
  o.steps = o.rule.bound * draw.between(2, 3);
  o.checkpoint_every = draw.between(0, 4);
  o.pause_every = draw.between(0, 3);
  o.pace_ms = draw.chance(0.5) ? 50 : 0;
  if (o.optimizer == "ftrl") o.optimizer = "adam";
}
inline void ps_links(Draw& draw, SimClusterOptions& o) {
  o.checkpoint_every = draw.between(0, 2);
  o.pace_ms = draw.chance(0.5) ? 300 : 0;
}

// A rule for each few steps.
inline std::map<int64_t, Aggregation> draw_switches(Draw& draw, const SimClusterOptions& o) {
  using Kind = Aggregation::Kind;
  std::map<int64_t, Aggregation> out;
  for (int64_t step = draw.between(1, 3); step < o.steps; step += draw.between(1, 2)) {
    const bool damped = draw.chance(0.3) && o.optimizer != "ftrl";
    const Aggregation rules[] = {Aggregation::sync,
                                 {Kind::sync_backup, draw.between(1, 2)},
                                 {Kind::async, 0, damped},
                                 {Kind::ssp, draw.between(0, 2), damped}};
    out[step] = rules[draw.below(std::size(rules))];
  }
  return out;
}

// The same with rounds of local steps, and changes at their ends.
inline std::map<int64_t, Aggregation> draw_local_switches(Draw& draw, const SimClusterOptions& o) {
  using Kind = Aggregation::Kind;
  std::map<int64_t, Aggregation> out;
  for (int64_t step = draw.between(1, 3); step < o.steps;) {
    const Aggregation rules[] = {Aggregation::sync,
                                 {.kind = Kind::local, .bound = 2},
                                 {.kind = Kind::local, .bound = 2, .outer_momentum = 0.5},
                                 {Kind::async},
                                 {Kind::ssp, 1}};
    const Aggregation& rule = out[step] = rules[draw.below(std::size(rules))];
    step += draw.between(1, 2);
    if (rule.local()) step += step % 2;
  }
  return out;
}

inline std::vector<Preset> presets() {
  return {
      {"cluster-step", 10, nullptr, nullptr},
      {"cluster-pushes", 10, nullptr, [](PresetFaults& plan) { plan.lose_messages(); }},
      {"cluster-worker-kill", 10, nullptr,
       [](PresetFaults& plan) { plan.kill_workers(plan.draw.between(1, 2)); }},
      {"cluster-compressed", 20,
       [](Draw& draw, SimClusterOptions& o) {
         checkpoints(draw, o);
         const char* const gradients[] = {"bf16", "f16", "int8", "w*=int8,none"};
         o.compression.gradients = gradients[draw.below(std::size(gradients))];
         o.compression.values = draw.chance(0.5) ? "bf16" : "";
         o.compression.seed = draw.below(3);
         o.pace_ms = draw.chance(0.5) ? 300 : 0;
       },
       lose_and_kill(1, 2)},
      {"cluster-residuals", 20,
       [](Draw& draw, SimClusterOptions& o) {
         o.checkpoint_every = draw.between(0, 3);
         const char* const gradients[] = {"topk:0.01", "topk:0.3", "sign", "w*=topk:0.1,sign"};
         o.compression.gradients = gradients[draw.below(std::size(gradients))];
         o.pace_ms = draw.chance(0.7) ? 300 : 0;
       },
       lose_and_kill(1, 2)},

      {"cluster-ps-kill", 10, checkpoints, kill_ps},
      // Rows of a table are made on first touch, and forgotten.
      {"cluster-table", 30,
       [](Draw& draw, SimClusterOptions& o) {
         checkpoints(draw, o);
         o.build = table_network;
         o.hidden = draw.between(6, 7);
         o.steps = draw.between(5, 8);
         o.pace_ms = draw.chance(0.5) ? 300 : 0;
       },
       [](PresetFaults& plan) {
         plan.lose_messages();
         plan.kill_workers(plan.draw.between(0, 1));
         plan.kill_ps(1);
       }},
      {"cluster-folder-away", 20, checkpoints,
       [](PresetFaults& plan) {
         kill_ps(plan);
         plan.lose_folders();
       }},
      {"cluster-start-kill", 20, [](Draw&, SimClusterOptions& o) { o.steps = 1; },
       [](PresetFaults& plan) { plan.kill_at_start(); }},
      {"cluster-start-cut", 5, nullptr, [](PresetFaults& plan) { plan.cut_at_start(); }},
      {"cluster-edges", 10,
       [](Draw& draw, SimClusterOptions& o) {
         o.edges = true;
         o.pace_ms = draw.chance(0.5) ? 300 : 0;
       },
       [](PresetFaults& plan) { plan.cut_workers(plan.draw.between(1, 2)); }},

      // No ps dies, so no step that was done is done again, with checkpoints and without them.
      {"cluster-ps-links", 30,
       [](Draw& draw, SimClusterOptions& o) {
         ps_links(draw, o);
         o.pause_every = draw.between(0, 2);
       },
       [](PresetFaults& plan) {
         lose_ps_links(plan);
         plan.kill_workers(plan.draw.between(0, 1));
       }},
      {"cluster-ps-links-async", 20,
       [](Draw& draw, SimClusterOptions& o) {
         ps_links(draw, o);
         o.rule = Aggregation::async;
       },
       lose_ps_links},
      {"cluster-ps-links-shared", 20,
       [](Draw& draw, SimClusterOptions& o) {
         ps_links(draw, o);
         o.clients = 2;
       },
       lose_ps_links},
      {"cluster-ps-links-kill", 20,
       [](Draw& draw, SimClusterOptions& o) {
         ps_links(draw, o);
         o.checkpoint_every = draw.between(1, 2);
       },
       [](PresetFaults& plan) {
         lose_ps_links(plan);
         plan.kill_ps(1);
       }},
      {"cluster-secret", 10,
       [](Draw& draw, SimClusterOptions& o) {
         o.secret = true;
         o.edges = true;
         checkpoints(draw, o);
       },
       [](PresetFaults& plan) {
         plan.lose_messages();
         plan.kill_workers(plan.draw.between(0, 1));
         plan.kill_ps(plan.draw.between(0, 1));
         plan.cut_workers(plan.draw.between(0, 1));
       }},
      {"cluster-async", 10,
       [](Draw& draw, SimClusterOptions& o) {
         checkpoints(draw, o);
         o.rule = Aggregation::async;
       },
       lose_and_kill(0, 1)},
      {"cluster-sync-backup", 20,
       [](Draw& draw, SimClusterOptions& o) {
         checkpoints(draw, o);
         o.rule = {Aggregation::Kind::sync_backup, draw.between(1, 2)};
         o.pause_every = draw.between(0, 2);
         o.pace_ms = draw.chance(0.5) ? 50 : 0;
       },
       lose_and_kill(0, 2)},
      {"cluster-ssp", 20,
       [](Draw& draw, SimClusterOptions& o) {
         checkpoints(draw, o);
         o.rule = {Aggregation::Kind::ssp, draw.between(0, 2),
                   draw.chance(0.5) && o.optimizer != "ftrl"};
         o.clients = draw.chance(0.25) ? 2 : 1;
         o.pace_ms = draw.chance(0.5) ? 50 : 0;
       },
       lose_and_kill(0, 2)},
      // Parameters with rules of their own.
      {"cluster-own-rules", 30,
       [](Draw& draw, SimClusterOptions& o) {
         checkpoints(draw, o);
         const Aggregation ssp{Aggregation::Kind::ssp, draw.between(0, 2)};
         const Aggregation rules[] = {Aggregation::sync, Aggregation::async, ssp};
         o.rule = rules[draw.below(3)];
         o.rule.own = {{"w1", rules[draw.below(3)]}, {"b*", rules[draw.below(3)]}};
         o.pause_every = draw.between(0, 2);
         o.pace_ms = draw.chance(0.5) ? 50 : 0;
       },
       lose_and_kill(0, 2)},
      // Each run is recorded, and repeated with other delays and without faults.
      {"cluster-replay", 40,
       [](Draw& draw, SimClusterOptions& o) {
         o.record = true;
         checkpoints(draw, o);
         o.steps = draw.between(4, 8);
         o.pause_every = draw.between(0, 2);
         o.pace_ms = draw.chance(0.7) ? 50 : 0;
         const bool damped = draw.chance(0.3) && o.optimizer != "ftrl";
         using Kind = Aggregation::Kind;
         const Aggregation rules[] = {{Kind::async, 0, damped},
                                      {Kind::ssp, draw.between(0, 2), damped},
                                      {Kind::sync_backup, draw.between(1, 2)},
                                      {.own = {{"w*", Aggregation::async}}}};
         if (draw.chance(0.2))
           o.switches = draw_switches(draw, o);
         else
           o.rule = rules[draw.below(std::size(rules))];
       },
       [](PresetFaults& plan) {
         if (plan.draw.chance(0.5)) plan.lose_messages();
         plan.kill_workers(plan.draw.between(0, 1));
         plan.kill_ps(plan.draw.between(0, 2));
         plan.lose_ps_links(plan.draw.between(0, 1));
         if (plan.draw.chance(0.3)) plan.kill_programs(1);
         if (plan.draw.chance(0.2)) plan.fail_power(1);
       }},
      {"cluster-local", 40,
       [](Draw& draw, SimClusterOptions& o) {
         local_steps(draw, o);
         o.edges = draw.chance(0.3);
       },
       [](PresetFaults& plan) {
         if (plan.draw.chance(0.5)) plan.lose_messages();
         plan.kill_workers(plan.draw.between(0, 2));
         plan.kill_ps(plan.draw.between(0, 1));
         plan.cut_workers(plan.draw.between(0, 1));
         plan.freeze_workers(plan.draw.between(0, 1));
       }},
      {"cluster-local-rules", 30,
       [](Draw& draw, SimClusterOptions& o) {
         o.steps = 2 * draw.between(3, 6);
         o.checkpoint_every = draw.between(0, 3);
         o.pace_ms = draw.chance(0.5) ? 50 : 0;
         if (o.optimizer == "ftrl") o.optimizer = "adam";
         o.switches = draw_local_switches(draw, o);
       },
       [](PresetFaults& plan) {
         if (plan.draw.chance(0.5)) plan.lose_messages();
         plan.kill_workers(plan.draw.between(0, 1));
         plan.kill_ps(plan.draw.between(0, 1));
       }},
      // All rules after each other, in one training.
      {"cluster-rules", 40,
       [](Draw& draw, SimClusterOptions& o) {
         o.steps = draw.between(6, 12);
         o.checkpoint_every = draw.between(0, 3);
         o.pause_every = draw.between(0, 2);
         o.pace_ms = draw.chance(0.5) ? 50 : 0;
         o.switches = draw_switches(draw, o);
       },
       [](PresetFaults& plan) {
         if (plan.draw.chance(0.5)) plan.lose_messages();
         plan.kill_workers(plan.draw.between(0, 1));
         plan.kill_ps(plan.draw.between(0, 2));
         plan.lose_ps_links(plan.draw.between(1, 4));
         if (plan.draw.chance(0.3)) plan.kill_programs(1);
       }},
      // Rate scales that are asked for by step, beside those of pauses: steps that are done again
      // have the same bits.
      {"cluster-scales", 30,
       [](Draw& draw, SimClusterOptions& o) {
         o.steps = draw.between(4, 10);
         o.checkpoint_every = draw.between(0, 3);
         o.pause_every = draw.between(0, 2);
         o.pace_ms = draw.chance(0.5) ? 50 : 0;
         if (o.optimizer == "ftrl") o.optimizer = "adam";
         for (int64_t step = draw.between(0, 2); step < o.steps; step += draw.between(1, 3))
           o.scales[step] = 1.0 / static_cast<double>(draw.between(1, 4));
       },
       [](PresetFaults& plan) {
         if (plan.draw.chance(0.5)) plan.lose_messages();
         plan.kill_workers(plan.draw.between(0, 1));
         plan.kill_ps(plan.draw.between(0, 2));
         plan.lose_ps_links(plan.draw.between(0, 3));
       }},
      {"cluster-all", 10, checkpoints,
       [](PresetFaults& plan) {
         plan.lose_messages();
         plan.kill_workers(plan.draw.between(1, 2));
         kill_ps(plan);
       }},

      // A ps that dies while somebody looks is restored, and looked at again. The optimizer's norms
      // are of whole parameters, some of which would be cut otherwise.
      {"cluster-pauses", 10,
       [](Draw& draw, SimClusterOptions& o) {
         checkpoints(draw, o);
         o.optimizer = "lamb";
         o.pause_every = draw.between(1, 2);
       },
       [](PresetFaults& plan) {
         plan.kill_workers(plan.draw.between(0, 1));
         kill_ps(plan);
       }},

      // Between-graph replication: two programs, each with its own graph and replicas, one set of
      // parameters.
      {"cluster-container", 10,
       [](Draw& draw, SimClusterOptions& o) {
         checkpoints(draw, o);
         o.clients = 2;
       },
       [](PresetFaults& plan) {
         if (plan.draw.chance(0.5)) plan.lose_messages();
         plan.kill_workers(plan.draw.between(0, 1));
         plan.kill_ps(plan.draw.between(0, 2));
       }},

      // The program dies in mid-training, and its successor resumes.
      {"cluster-program-kill", 20,
       [](Draw& draw, SimClusterOptions& o) {
         o.checkpoint_every = draw.between(0, 2);
         o.rule = draw.chance(0.5) ? Aggregation::async : Aggregation::sync;
         o.pace_ms = draw.chance(0.5) ? 300 : 0;
       },
       [](PresetFaults& plan) {
         plan.kill_programs(plan.draw.between(1, 2));
         plan.kill_workers(plan.draw.between(0, 1));
       }},

      // One of two programs that share parameters dies, and is started again. If it was the owner,
      // it is the owner again, or the other one.
      {"cluster-handed-on", 30,
       [](Draw& draw, SimClusterOptions& o) {
         o.clients = 2;
         o.checkpoint_every = draw.between(0, 2);
         o.rule = draw.chance(0.3) ? Aggregation::async : Aggregation::sync;
         o.pace_ms = draw.chance(0.7) ? 300 : 0;
         o.late_program = draw.chance(0.3);
       },
       [](PresetFaults& plan) {
         plan.kill_programs(plan.draw.between(1, 2));
         plan.kill_workers(plan.draw.between(0, 1));
       }},

      // Checkpoints that cannot be written cost no step, but the last one, without which a program
      // ends.
      {"cluster-disk", 20, checkpoints,
       [](PresetFaults& plan) {
         plan.lose_disk(plan.draw.between(1, 3));
         plan.kill_ps(plan.draw.between(0, 1));
       }},
      {"cluster-power", 20, checkpoints,
       [](PresetFaults& plan) { plan.fail_power(plan.draw.between(1, 2)); }},
      {"cluster-corruption", 20, checkpoints,
       [](PresetFaults& plan) { plan.corrupt_frames(plan.draw.between(1, 5)); }},

      // Gradients and values of more than 16 KiB, which travel in chunks.
      {"cluster-corruption-large", 10,
       [](Draw& draw, SimClusterOptions& o) {
         checkpoints(draw, o);
         o.hidden = 4200;
       },
       [](PresetFaults& plan) { plan.corrupt_frames(plan.draw.between(10, 20)); }},

      // Workers end for good, leave, are away for long, or freeze and thaw; replicas move to
      // others, and back to workers that have room. Some begin on fewer workers than replicas, some
      // with spare ones.
      {"cluster-moves", 60,
       [](Draw& draw, SimClusterOptions& o) {
         o.shape.workers = static_cast<int32_t>(draw.between(2, 5));
         o.steps = draw.between(4, 10);
         o.move_after_ms = draw.between(100, 3000);
         o.rule = draw.chance(0.3) ? Aggregation::async : Aggregation::sync;
         o.checkpoint_every = draw.between(0, 3);
         o.edges = draw.chance(0.3);
         o.pace_ms = draw.chance(0.7) ? 300 : 50;
       },
       [](PresetFaults& plan) {
         plan.lose_workers(plan.draw.between(1, 5));
         if (plan.draw.chance(0.3)) plan.lose_messages();
         plan.cut_workers(plan.draw.between(0, 2));
         plan.lose_ps_links(plan.draw.between(0, 1));
         plan.kill_ps(plan.draw.between(0, 1));
       }},

      // The same tensors in segments, which others read in place. Deaths, freezes and resets end
      // loans; a reader that is cut off reads on.
      {"cluster-one-machine", 20,
       [](Draw& draw, SimClusterOptions& o) {
         o.one_machine = true;
         o.hidden = 4200;
         o.edges = draw.chance(0.5);
         o.rule = draw.chance(0.3) ? Aggregation::async : Aggregation::sync;
         o.checkpoint_every = draw.between(1, 2);
         o.pace_ms = draw.chance(0.5) ? 300 : 0;
       },
       [](PresetFaults& plan) {
         lose_ps_links(plan);
         plan.cut_workers(plan.draw.between(0, 2));
         plan.freeze_workers(plan.draw.between(0, 2));
         plan.kill_workers(plan.draw.between(0, 1));
         plan.kill_ps(plan.draw.between(0, 1));
       }},

      // Faults at the places in the code where they hurt most.
      {"cluster-points", 40,
       [](Draw& draw, SimClusterOptions& o) {
         checkpoints(draw, o);
         o.rule = draw.chance(0.3) ? Aggregation::async : Aggregation::sync;
         o.edges = draw.chance(0.3);
       },
       [](PresetFaults& plan) {
         plan.reach_points(plan.draw.between(1, 4));
         if (plan.draw.chance(0.3)) plan.kill_workers(1);
         if (plan.draw.chance(0.3)) plan.kill_ps(1);
         if (plan.draw.chance(0.3)) plan.lose_messages();
       }},

      {"cluster-swarm", 60,
       [](Draw& draw, SimClusterOptions& o) {
         o.steps = draw.between(3, 10);
         o.rule = draw.chance(0.4) ? Aggregation::async : Aggregation::sync;
         o.clients = draw.chance(0.25) ? 2 : 1;
         o.late_program = o.clients > 1 && draw.chance(0.5);
         o.checkpoint_every = draw.between(0, 3);
         o.pause_every = draw.chance(0.3) ? draw.between(1, 2) : 0;
         o.edges = draw.chance(0.3);
         const int64_t paces[] = {0, 50, 300};
         o.pace_ms = paces[draw.below(3)];
       },
       [](PresetFaults& plan) { plan.swarm(); }},
  };
}
// Throws: Error(invalid_argument).
inline Preset preset_of(const std::string& name) {
  for (const Preset& preset : presets())
    if (preset.name == name) return preset;
  throw Error(Errc::invalid_argument, "no preset is called ", name);
}

}  // namespace troupe::sim
