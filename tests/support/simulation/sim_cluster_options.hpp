// The options drawn for a SimCluster: its training, its faults, and mistakes on purpose.
#pragma once

#include <iterator>
#include <string>

#include "tests/support/simulation/simulation.hpp"
#include "troupe/training.hpp"

namespace troupe::sim {

struct SimClusterOptions {
  static constexpr int32_t kPs = 2, kWorkers = 3;  // one replica per worker

  int clients = 1;  // 2: they share the parameters, and have the replicas of one or two workers
  Aggregation rule = Aggregation::sync;
  int64_t steps = 4;
  int64_t checkpoint_every = 0;  // 0: no checkpoints
  int64_t pause_every = 0;       // 0: the training never stands still to be looked at
  int64_t hidden = 6;            // width; wide parameters are cut over both ps
  std::string optimizer = "sgd";
  double drop = 0, duplicate = 0, overtake = 0;
  int worker_kills = 0, ps_kills = 0;  // within a step
  int64_t start_kill = -1;   // any process is killed so many events after the program began to
                             // prepare, if it has not begun to train by then; -1: none
  bool start_cut = false;    // a worker and a ps have no link to each other for the first 5 s
  bool folder_away = false;  // nobody, or one process, can read checkpoints as a restore begins
  bool edges = false;        // a part of each tower is on the worker after its own
  int worker_cuts = 0;  // within a step two workers have no link to each other for some seconds
  int ps_links = 0;  // links to a ps that are reset or cut within a step, or a client that freezes
  // Mistakes on purpose, to see that the checks find them.
  bool other_data_after_kill = false;  // a replica whose worker came back is fed other records
  bool doubled_apply = false;          // the log says some updates twice
};

inline SimClusterOptions draw_cluster_options(Draw& draw) {
  SimClusterOptions o;
  o.steps = draw.between(3, 5);
  o.hidden = draw.chance(0.2) ? 4200 : 6;
  const char* const optimizers[] = {"sgd",     "momentum", "nesterov", "adagrad", "adadelta",
                                    "rmsprop", "adam",     "adamw",    "ftrl"};
  o.optimizer = optimizers[draw.below(std::size(optimizers))];
  return o;
}

// The run that it must equal.
inline SimClusterOptions without_faults(SimClusterOptions o) {
  o.clients = 1;
  o.drop = o.duplicate = o.overtake = 0;
  o.worker_kills = o.ps_kills = 0;
  o.start_kill = -1;
  o.start_cut = false;
  o.folder_away = false;
  o.worker_cuts = o.ps_links = 0;
  o.other_data_after_kill = o.doubled_apply = false;
  return o;
}

inline std::string describe(const SimClusterOptions& o) {
  return detail::concat(
      "options clients=", o.clients, " rule=", to_string(o.rule), " steps=", o.steps,
      " checkpoint_every=", o.checkpoint_every, " pause_every=", o.pause_every,
      " hidden=", o.hidden, " optimizer=", o.optimizer, " drop=", o.drop,
      " duplicate=", o.duplicate, " overtake=", o.overtake, " worker_kills=", o.worker_kills,
      " ps_kills=", o.ps_kills, " start_kill=", o.start_kill, " start_cut=", o.start_cut,
      " folder_away=", o.folder_away, " edges=", o.edges, " worker_cuts=", o.worker_cuts,
      " ps_links=", o.ps_links);
}

}  // namespace troupe::sim
