// The options drawn for a SimCluster: its training, and mistakes on purpose.
#pragma once

#include <iterator>
#include <string>

#include "tests/support/simulation/simulation.hpp"
#include "troupe/training.hpp"

namespace troupe::sim {

struct SimClusterOptions {
  static constexpr int32_t kPs = 2, kWorkers = 3;  // one replica per worker
  static constexpr int32_t kPeersMax = kPs + kWorkers + 2;

  int clients = 1;  // 2: they share the parameters, and have the replicas of one or two workers
  Aggregation rule = Aggregation::sync;
  int64_t steps = 4;
  int64_t checkpoint_every = 0;  // 0: no checkpoints
  int64_t pause_every = 0;       // 0: the training never stands still to be looked at
  int64_t hidden = 6;            // width; wide parameters are cut over both ps
  std::string optimizer = "sgd";
  bool edges = false;   // a part of each tower is on the worker after its own
  int64_t pace_ms = 0;  // at most so long after it may, a step begins: faults fall into a training
  bool late_program = false;  // the second client begins while the first one trains
  bool secret = false;        // all processes prove to each other that they know one
  // Mistakes on purpose, to see that the checks find them.
  bool other_data_after_kill = false;  // a replica whose worker came back is fed other records
  bool doubled_apply = false;          // the log says some updates twice
  bool early_acknowledgement = false;  // a client takes each for that of the step after it
  bool values_of_before = false;       // a client takes each version for the one before it
  bool cuts_stay = false;              // a link that was cut stays so
  bool lying_disk = false;             // files that were synced are not kept
  bool deaths_denied = false;          // the checks believe that no ps dies
  bool busy_after_kill = false;        // a killed process still does all that it has queued
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

// The run that it must equal, without faults.
inline SimClusterOptions calm(SimClusterOptions o) {
  o.clients = 1;
  o.late_program = false;
  o.other_data_after_kill = o.doubled_apply = o.busy_after_kill = false;
  o.early_acknowledgement = o.values_of_before = o.cuts_stay = o.deaths_denied = false;
  o.lying_disk = false;
  return o;
}

inline std::string describe(const SimClusterOptions& o) {
  return detail::concat("options clients=", o.clients, " rule=", to_string(o.rule),
                        " steps=", o.steps, " checkpoint_every=", o.checkpoint_every,
                        " pause_every=", o.pause_every, " hidden=", o.hidden,
                        " optimizer=", o.optimizer, " edges=", o.edges, " pace_ms=", o.pace_ms,
                        " late_program=", o.late_program, " secret=", o.secret);
}

}  // namespace troupe::sim
