// The options of a SimCluster: its training, and mistakes on purpose.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "chaos/history.hpp"
#include "training/codecs/codec_list.hpp"
#include "troupe/op.hpp"
#include "troupe/training.hpp"

namespace troupe::sim {

// The processes of a cluster, beside its clients.
struct SimShape {
  int32_t ps = 2, workers = 3;
  int32_t servers() const { return ps + workers; }
};

// Somebody who looks at a training, and throws a Violation if it is not as it should be.
class SimWatch {
 public:
  using Weights = std::map<std::string, Tensor>;  // by name
  virtual ~SimWatch() = default;
  virtual void begins() = 0;  // a run of the cluster
  virtual void ended_well(int64_t us, int64_t replica, int64_t step, double loss) = 0;
  // The weights of a pause after so many steps, or those of the end.
  virtual void looked(int64_t us, int64_t step, const Weights& seen, bool end) = 0;
};

struct SimClusterOptions {
  // Builds the towers of these replicas.
  using Build = std::function<std::vector<Tower>(Graph&, const SimClusterOptions&,
                                                 const std::vector<int32_t>& replicas)>;

  SimShape shape = {};
  int32_t replicas = 3;
  Build build = {};
  std::shared_ptr<const Registry> ops = builtin_ops();
  SimWatch* watch = nullptr;  // sees the training; null: nobody
  int clients = 1;  // 2: they share the parameters, and have the replicas of one or two workers
  Aggregation rule = Aggregation::sync;
  std::map<int64_t, Aggregation> switches = {};  // by step: the rules that follow
  std::map<int64_t, double> scales = {};         // by step: rate scales that no pause sets
  int64_t steps = 4;
  int64_t checkpoint_every = 0;  // 0: no checkpoints
  int64_t pause_every = 0;       // 0: the training never stands still to be looked at
  Compression compression = {};
  bool rate_scales = true;  // each pause sets the rate scale
  int64_t pace_ms = 0;  // at most so long after it may, a step begins: faults fall into a training
  int64_t move_after_ms = 0;  // TrainOptions::move_after
  bool record = false;        // the order of updates
  // The files of a record by name, whose order is repeated; empty: none is.
  std::map<std::string, std::string> replay = {};
  bool late_program = false;     // the second client begins while the first one trains
  int64_t events_max = 400'000;  // without an end by then a run has failed
  bool secret = false;           // all processes prove to each other that they know one
  bool one_machine = false;      // processes read large tensors of each other in place
  // For `build`, and in describe(), since a history lists all options that are drawn. Frames of
  // large tensors are damaged in a wide network alone; ftrl knows no rate scale.
  int64_t hidden = 6;  // width; wide parameters are cut over both ps
  std::string optimizer = "sgd";
  bool edges = false;  // a part of each tower is on the worker after its own
  // Mistakes on purpose, to see that the checks find them.
  bool other_data_after_kill = false;  // a replica whose worker came back is fed other records
  bool doubled_apply = false;          // the log says some updates twice
  bool other_gradient = false;         // the log says another gradient of an update
  bool early_acknowledgement = false;  // a client takes each for that of the step after it
  bool values_of_before = false;       // a client takes each version for the one before it
  bool cuts_stay = false;              // a link that was cut stays so
  bool lying_disk = false;             // files that were synced are not kept
  bool damaged_files = false;          // a checkpoint's files are not those that were written
  bool forgetful_program = false;      // one that is started again finds no checkpoint
  bool deaths_denied = false;          // the checks believe that no ps dies
  bool busy_after_kill = false;        // a killed process still does all that it has queued
};

// The run that it must equal, without faults.
inline SimClusterOptions calm(SimClusterOptions o) {
  o.clients = 1;
  o.late_program = false;
  o.other_data_after_kill = o.doubled_apply = o.other_gradient = o.busy_after_kill = false;
  o.early_acknowledgement = o.values_of_before = o.cuts_stay = o.deaths_denied = false;
  o.lying_disk = o.damaged_files = o.forgetful_program = false;
  return o;
}

// Pauses of a program that begins anew do what those of its predecessor did.
inline bool pauses_repeat(const SimClusterOptions& o) {
  return o.pause_every == 0 || !o.rate_scales;
}
// The values are those of a run without faults.
inline bool repeats_bits(const SimClusterOptions& o) {
  return o.rule.repeats() && o.switches.empty();
}
// The asynchronous replicas of other programs may be behind the steps that an owner checkpoints.
inline bool replicas_keep_step(const SimClusterOptions& o) {
  return o.clients == 1 || o.rule.repeats();
}
// The death of a worker may take all towers back to the checkpoint: with residuals, and with an
// order of updates that is recorded or repeated.
inline bool goes_back_with_workers(const SimClusterOptions& o) {
  return has_residuals(o.compression) || o.record || !o.replay.empty();
}
// The replicas of the client of this number; the first of two has one.
inline std::vector<int32_t> replicas_of(const SimClusterOptions& o, int number) {
  std::vector<int32_t> out(static_cast<size_t>(o.replicas));
  std::iota(out.begin(), out.end(), 0);
  if (o.clients > 1) out = number == 0 ? std::vector{0} : std::vector{1, 2};
  return out;
}

inline std::string describe(const SimClusterOptions& o) {
  std::string switches;
  for (const auto& [step, rule] : o.switches)
    switches += detail::concat(switches.empty() ? " switches=" : ",", step, "=", to_string(rule));
  for (const auto& [step, scale] : o.scales)
    switches += detail::concat(" scale=", step, ":", scale);
  return detail::concat("options clients=", o.clients, " rule=", to_string(o.rule),
                        " steps=", o.steps, " checkpoint_every=", o.checkpoint_every,
                        " pause_every=", o.pause_every, " hidden=", o.hidden,
                        " optimizer=", o.optimizer, " edges=", o.edges, " pace_ms=", o.pace_ms,
                        " late_program=", o.late_program, " secret=", o.secret) +
         (o.one_machine ? " one_machine=1" : "") +
         (o.compression.gradients.empty() ? "" : " compress=" + o.compression.gradients) +
         (o.compression.values.empty() ? "" : " compress_values=" + o.compression.values) +
         (o.record ? " record=1" : "") + (o.replay.empty() ? "" : " replay=1") +
         (o.move_after_ms > 0 ? detail::concat(" move_after_ms=", o.move_after_ms) : "") +
         switches +
         (o.shape.ps == 2 && o.shape.workers == 3
              ? ""
              : detail::concat(" ps=", o.shape.ps, " workers=", o.shape.workers));
}

}  // namespace troupe::sim
