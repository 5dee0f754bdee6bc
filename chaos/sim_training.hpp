// SeedTraining: the training of a seed in a SimCluster, with the faults that are drawn for it.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "chaos/seed_run.hpp"
#include "chaos/shrink.hpp"
#include "chaos/sim_cluster.hpp"

namespace troupe::sim {

using DrawOptions = std::function<void(Draw&, SimClusterOptions&)>;
using DrawFaults = std::function<void(FaultPlan&)>;

// The training of a seed: its options, its faults, and under the synchronous rule a run without
// faults, which it must equal bit by bit.
class SeedTraining {
 public:
  // `text`: faults instead of the drawn ones; null: none.
  SeedTraining(uint64_t seed, const DrawOptions& options, const DrawFaults& faults,
               const char* text)
      : seed_(seed) {
    Draw draw(seed);
    options(draw, options_);
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
    if (text) faults_ = faults_of(text, options_.shape);
  }
  const Faults& faults() const { return faults_; }
  // Virtual time of the runs without faults so far.
  int64_t calm_us() const { return calm_us_; }

  // Throws: Violation. `outcome`: where the balance of the run is added; null: nowhere.
  void run(const Faults& faults, History& history, SimOutcome* outcome = nullptr) const {
    if (broken_) SimCluster(*broken_, seed_, {}, nullptr, history).run();
    const bool golden = repeats_bits(options_) && !weights_.empty();
    SimCluster cluster(options_, seed_, faults, golden ? &chain_ : nullptr, history);
    struct Balance {
      ~Balance() {
        if (outcome) outcome->add(cluster.outcome());
      }
      const SimCluster& cluster;
      SimOutcome* outcome;
    } const balance{cluster, outcome};
    cluster.run();
    if (golden && cluster.weights() != weights_)
      throw Violation{"I5", "the final weights are not those of a run without faults"};
    if (golden && cluster.looked() != looked_)
      throw Violation{"I5", "a pause has not seen the weights of a run without faults"};
    if (options_.record) repeat(cluster);
  }
  // The invariant that the run breaks, or "".
  std::string broken_by(const Faults& faults) const {
    History silent;
    const auto broken = broken_in([&] { run(faults, silent); });
    return broken ? broken->invariant : "";
  }
  // The fewest of its faults that break this invariant. Requires: all of them do.
  Shrunk least(const std::string& invariant) const {
    return shrink(faults_, [&](const Faults& fewer) { return broken_by(fewer) == invariant; });
  }

 private:
  // The order that the run has recorded gives its weights, whatever comes first this time.
  void repeat(const SimCluster& recorded) const {
    SimClusterOptions options = calm(options_);
    options.record = false;
    options.replay = recorded.disk().files(kRecordFolder);
    History silent;
    SimCluster again(options, seed_ + kOtherSeed, {}, nullptr, silent);
    try {
      again.run();
    } catch (const Violation& v) {
      throw Violation{"I25", detail::concat("the record cannot be repeated: ", v.text)};
    }
    if (again.weights() != recorded.weights())
      throw Violation{"I25", "the record does not give the weights of its training"};
  }
  static constexpr uint64_t kOtherSeed = 1'000'003;

  CalmRun run_calmly(const SimClusterOptions& options, bool golden) {
    History silent;
    const CalmRun none{.begun = 1, .ended = 1};
    try {
      SimCluster cluster(options, seed_, {}, nullptr, silent);
      cluster.run();
      calm_us_ += cluster.outcome().us;
      if (golden) {
        chain_ = cluster.chain();
        weights_ = cluster.weights();
        looked_ = cluster.looked();
      }
      return cluster.calm();
    } catch (const Violation&) {
      broken_ = options;
    } catch (const std::exception&) {  // of the graph; run() meets it again
      broken_ = options;
    }
    return none;
  }

  const uint64_t seed_;
  SimClusterOptions options_;
  Faults faults_;
  std::optional<SimClusterOptions> broken_;  // of a run without faults that breaks an invariant
  int64_t calm_us_ = 0;
  HashChain chain_;
  std::string weights_;
  std::map<int64_t, std::string> looked_;
};

}  // namespace troupe::sim
