// FaultPlan: draws the faults of a seed, all of them before its run begins.
#pragma once

#include <cstdint>
#include <utility>

#include "chaos/fault.hpp"
#include "chaos/history.hpp"
#include "chaos/sim_cluster_options.hpp"

namespace troupe::sim {

// A run without faults: where in its history faults are of use.
struct CalmRun {
  int64_t prepared = 0, begun = 0, ended = 0;  // events: the program prepares, trains, has trained
  int64_t messages = 0;                        // that may be lost
};

class FaultPlan {
 public:
  // Requires: `options` outlives it. Faults are drawn from a stream of their own.
  FaultPlan(uint64_t seed, const SimClusterOptions& options, const CalmRun& calm)
      : draw(seed ^ 0xfa17), o_(options), calm_(calm) {}

  Faults take() { return in_order(std::exchange(faults_, {})); }
  void give(Faults faults) { faults_ = std::move(faults); }  // instead of those so far

  Draw draw;

  // Faults of kinds with drawn weights. Half of all weights are 0, so that each kind meets few
  // others in one seed and many in another.
  void swarm();
  // Each kill of a ps so far takes the folder of checkpoints along, for all or for one that reads.
  void lose_folders();

  // For plans of other kinds.
  const CalmRun& calm() const { return calm_; }
  const SimShape& shape() const { return in_; }
  void put(Fault fault) { faults_.push_back(std::move(fault)); }
  void in_training(FaultKind kind, int who, int other, int64_t lasts);
  int ps() { return static_cast<int>(draw.below(size(in_.ps))); }
  int worker() { return in_.ps + static_cast<int>(draw.below(size(in_.workers))); }
  int client() { return in_.servers() + static_cast<int>(draw.below(size(o_.clients))); }
  int server() { return static_cast<int>(draw.below(size(in_.servers()))); }  // a ps or a worker
  int anybody() { return static_cast<int>(draw.below(size(in_.servers() + o_.clients))); }
  // The process whose disk has a fault: a ps, a program, or any.
  int writer() { return draw.chance(0.3) ? Fault::kAny : draw.chance(0.5) ? ps() : client(); }
  FaultKind any_cut() { return draw.chance(0.3) ? FaultKind::cut_from : FaultKind::cut; }
  // Tensors are large enough for chunks if the network is wide.
  FaultKind damage() {
    return o_.hidden > 1000 && draw.chance(0.5) ? FaultKind::corrupt_large : FaultKind::corrupt;
  }

 private:
  static uint64_t size(int n) { return static_cast<uint64_t>(n); }
  void put(int64_t at, FaultKind kind, int who, int other, int64_t lasts) {
    faults_.push_back({at, kind, who, other, lasts});
  }
  int64_t anywhere();
  int anybody_but(int one);
  FaultKind message_fault();
  void elsewhere(Fault& fault);
  void swarm_fault(int kind);

  const SimClusterOptions& o_;
  const SimShape& in_ = o_.shape;
  const CalmRun calm_;
  Faults faults_;
};

}  // namespace troupe::sim
