// Training: the training of a seed of a preset; and a Scenario of many seeds.
#pragma once

#include <cstdlib>
#include <functional>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include "chaos/sim_training.hpp"
#include "tests/support/simulation/preset_faults.hpp"
#include "tests/support/simulation/simulation.hpp"
#include "tests/support/simulation/small_network.hpp"

namespace troupe::sim {

// Adds the faults of a preset.
using AddFaults = std::function<void(PresetFaults&)>;

// The options that each preset draws first, then its own; the faults that it draws, or those that
// the environment names.
class Training : public SeedTraining {
 public:
  Training(uint64_t seed, const DrawOptions& options, const AddFaults& faults)
      : SeedTraining(
            seed,
            [&options](Draw& draw, SimClusterOptions& o) {
              o = draw_cluster_options(draw);
              if (options) options(draw, o);
            },
            into_plan(faults), asked_for(SimRequest::faults())) {}

 private:
  static DrawFaults into_plan(const AddFaults& faults) {
    if (!faults) return nullptr;
    return [faults](FaultPlan& plan) {
      PresetFaults of_preset(plan);
      faults(of_preset);
    };
  }
  // A mistake in the text is no failure of a seed.
  static const char* asked_for(const char* text) {
    try {
      if (text) faults_of(text);
      return text;
    } catch (const Error& e) {
      std::cerr << "--faults: " << e.what() << std::endl;
      std::_Exit(exit_code(Errc::invalid_argument));
    }
  }
};

inline Scenario training_scenario(const std::string& name, uint64_t seeds,
                                  const DrawOptions& options, const AddFaults& faults,
                                  std::vector<uint64_t> also = {}) {
  const auto body = [options, faults](uint64_t seed, History& history) {
    const Training training(seed, options, faults);
    SimOutcome outcome;
    training.run(training.faults(), history, &outcome);
    for (const auto& [kind, times] : outcome.faults) history.struck(times);
  };
  const auto shrink = [name, options, faults](uint64_t seed, const std::string& invariant) {
    const Training training(seed, options, faults);
    const Shrunk least = training.least(invariant);
    return detail::concat(least.faults.size(), " of ", training.faults().size(), " faults break ",
                          invariant, ", after ", least.runs, " runs\n  replay: ./dev sim ", name,
                          " ", seed, " --faults \"", to_text(least.faults), "\"");
  };
  return {name, seeds, body, std::move(also), shrink};
}

}  // namespace troupe::sim
