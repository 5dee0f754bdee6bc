// A training in simulated clusters, struck by drawn faults. Implemented in chaos/, docs/chaos.md.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "troupe/training.hpp"

namespace troupe {

struct ChaosTraining {
  // The towers, of replicas 0, 1, ..., each with all parameters, on devices "/job:worker/task:1" or
  // "/job:ps/task:0". Called for each run, and for each program that begins after one has died.
  std::function<std::vector<Tower>(Graph&)> build;
  int64_t steps = 10;       // per replica; at most 10,000
  int ps = 2, workers = 3;  // together at most 64
  Aggregation rule = Aggregation::sync;
  int64_t checkpoint_every = 0;  // in steps; 0: no checkpoints
  int64_t pause_every = 0;       // in steps; then invariants see the parameters; 0: only at the end
  // Before each step; a drawn time of at most this, at most 10 s. Kernels take no virtual time.
  std::chrono::milliseconds pace{50};
  std::shared_ptr<const Registry> ops = builtin_ops();
};

struct ChaosOptions {
  uint64_t first_seed = 1, seeds = 20;
  std::vector<std::string> kinds = {};  // of docs/simulation.md, to be drawn; empty: all
  int faults_a_seed = 0;                // 0: a drawn number; more are drawn for at most 200 tries
  std::optional<std::string> faults = {};  // none is drawn: "1203:kill:ps1:250 1400:power:any:90"
  std::string report_dir = {};  // a folder for the history of a seed that fails; empty: none
  bool shrink = true;           // a failure: look for the fewest faults
};

struct ChaosStep {
  int64_t replica = 0, step = 0;
  double loss = 0;
};

struct ChaosView {
  enum Moment : uint8_t { step, pause, end } moment;
  uint64_t seed;
  std::chrono::microseconds time;                   // virtual, since the processes began
  const std::vector<ChaosStep>& steps;              // all that have ended well, the newest last
  const std::map<std::string, Tensor>& parameters;  // by name; empty after a step
};

// `broken` returns why the promise does not hold, or "". docs/chaos.md says when it is called.
struct Invariant {
  std::string name;
  std::function<std::string(const ChaosView&)> broken;
};

struct ChaosFailure {
  uint64_t seed = 0;
  std::string invariant, reason;  // a name of yours, one of docs/simulation.md, or "error"; why
  std::string faults, replay, report;  // of the seed; options to see it again; index.html, or ""
  std::optional<std::string> shrunk;   // the fewest faults that break it, if looked for
};

struct ChaosReport {
  uint64_t seeds = 0;                     // that were run
  std::map<std::string, int64_t> faults;  // that happened, by kind
  int64_t acknowledged = 0, lost = 0;     // gradients of slices; lost: given up, and made again
  double simulated_seconds = 0, cpu_seconds = 0;
  std::optional<ChaosFailure> failure;  // the first one, after which no other seed is run
};
std::string to_string(const ChaosReport& report);  // some lines for a person

// Runs the training for each seed, in this thread. The invariants of docs/simulation.md hold, too.
// Functions and kernels of the training that fail, and invariants that throw, fail the seed. One
// call at a time in a process, and no session beside it; kernels end in the thread that calls them.
// Throws: Error(invalid_argument) with the field, Error(io) for report_dir, all of build's first
// call.
ChaosReport run_chaos(const ChaosTraining& training, const ChaosOptions& options = {},
                      const std::vector<Invariant>& invariants = {});

}  // namespace troupe
