// Training: the training of a seed in a SimCluster, with the faults that a preset draws for it; and
// a Scenario of many seeds.
#pragma once

#include <cstdlib>
#include <functional>
#include <iostream>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/simulation/shrink.hpp"
#include "tests/support/simulation/sim_cluster.hpp"

namespace troupe::sim {

using DrawOptions = std::function<void(Draw&, SimClusterOptions&)>;
using DrawFaults = std::function<void(FaultPlan&)>;

// The training of a seed: its options, its faults, and under the synchronous rule a run without
// faults, which it must equal bit by bit.
class Training {
 public:
  Training(uint64_t seed, const DrawOptions& options, const DrawFaults& faults) : seed_(seed) {
    Draw draw(seed);
    options_ = draw_cluster_options(draw);
    if (options) options(draw, options_);
    if (!faults) return;
    CalmRun calm = run_calmly(sim::calm(options_), true);
    if (options_.clients > 1) {
      SimClusterOptions shared = sim::calm(options_);
      shared.clients = options_.clients;
      calm = run_calmly(shared, false);
    }
    FaultPlan plan(seed, options_, calm);
    faults(plan);
    faults_ = plan.take();
    if (const char* text = SimRequest::faults()) faults_ = asked_for(text);
  }
  const Faults& faults() const { return faults_; }

  // Throws: Violation.
  void run(const Faults& faults, History& history) const {
    if (broken_) SimCluster(*broken_, seed_, {}, nullptr, history).run();
    const bool golden = options_.rule == Aggregation::sync && !weights_.empty();
    SimCluster cluster(options_, seed_, faults, golden ? &chain_ : nullptr, history);
    cluster.run();
    if (golden && cluster.weights() != weights_)
      throw Violation{"I5", "the final weights are not those of a run without faults"};
    if (golden && cluster.looked() != looked_)
      throw Violation{"I5", "a pause has not seen the weights of a run without faults"};
  }
  // The invariant that the run breaks, or "".
  std::string broken_by(const Faults& faults) const {
    History silent;
    try {
      run(faults, silent);
    } catch (const Violation& v) {
      return v.invariant;
    } catch (const std::exception&) {
      return "error";
    }
    return "";
  }

 private:
  // A mistake in the text is no failure of a seed.
  static Faults asked_for(const char* text) {
    try {
      return faults_of(text);
    } catch (const Error& e) {
      std::cerr << "--faults: " << e.what() << std::endl;
      std::_Exit(exit_code(Errc::invalid_argument));
    }
  }
  CalmRun run_calmly(const SimClusterOptions& options, bool golden) {
    History silent;
    SimCluster cluster(options, seed_, {}, nullptr, silent);
    try {
      cluster.run();
    } catch (const Violation&) {
      broken_ = options;
      return {.begun = 1, .ended = 1};
    }
    if (golden) {
      chain_ = cluster.chain();
      weights_ = cluster.weights();
      looked_ = cluster.looked();
    }
    return cluster.calm();
  }

  const uint64_t seed_;
  SimClusterOptions options_;
  Faults faults_;
  std::optional<SimClusterOptions> broken_;  // of a run without faults that breaks an invariant
  HashChain chain_;
  std::string weights_;
  std::map<int64_t, std::string> looked_;
};

inline Scenario training_scenario(const std::string& name, uint64_t seeds,
                                  const DrawOptions& options, const DrawFaults& faults,
                                  std::vector<uint64_t> also = {}) {
  const auto body = [options, faults](uint64_t seed, History& history) {
    const Training training(seed, options, faults);
    training.run(training.faults(), history);
  };
  const auto shrink = [name, options, faults](uint64_t seed, const std::string& invariant) {
    const Training training(seed, options, faults);
    const std::string wanted = invariant.empty() ? "error" : invariant;
    const Shrunk least = sim::shrink(training.faults(), [&](const Faults& fewer) {
      return training.broken_by(fewer) == wanted;
    });
    return detail::concat(least.faults.size(), " of ", training.faults().size(), " faults break ",
                          wanted, ", after ", least.runs, " runs\n  replay: ./dev sim ", name, " ",
                          seed, " --faults \"", to_text(least.faults), "\"");
  };
  return {name, seeds, body, std::move(also), shrink};
}

}  // namespace troupe::sim
