// Whole clusters in one thread: a training over 2 ps, 3 workers and one or two clients, without
// faults and with those of each preset, and with any of them together (cluster-swarm).

#include "tests/support/simulation/shrink.hpp"
#include "tests/support/simulation/sim_cluster.hpp"

namespace troupe {
namespace {

using sim::FaultPlan;
using sim::Faults;
using sim::History;
using sim::SimCluster;
using sim::SimClusterOptions;

using DrawOptions = std::function<void(sim::Draw&, SimClusterOptions&)>;
using DrawFaults = std::function<void(FaultPlan&)>;

// The training of a seed: its options, its faults, and under the synchronous rule a run without
// faults, which it must equal bit by bit.
class Training {
 public:
  Training(uint64_t seed, const DrawOptions& options, const DrawFaults& faults) : seed_(seed) {
    sim::Draw draw(seed);
    options_ = draw_cluster_options(draw);
    if (options) options(draw, options_);
    if (!faults) return;
    sim::CalmRun calm = run_calmly(sim::calm(options_), true);
    if (options_.clients > 1) {
      SimClusterOptions shared = sim::calm(options_);
      shared.clients = options_.clients;
      calm = run_calmly(shared, false);
    }
    FaultPlan plan(seed, options_, calm);
    faults(plan);
    faults_ = plan.take();
    if (const char* text = sim::SimRequest::faults()) faults_ = sim::faults_of(text);
  }
  const Faults& faults() const { return faults_; }

  // Throws: Violation.
  void run(const Faults& faults, History& history) const {
    if (broken_) SimCluster(*broken_, seed_, {}, nullptr, history).run();
    const bool golden = options_.rule == Aggregation::sync && !weights_.empty();
    SimCluster cluster(options_, seed_, faults, golden ? &chain_ : nullptr, history);
    cluster.run();
    if (golden && cluster.weights() != weights_)
      throw sim::Violation{"I5", "the final weights are not those of a run without faults"};
    if (golden && cluster.looked() != looked_)
      throw sim::Violation{"I5", "a pause has not seen the weights of a run without faults"};
  }
  // The invariant that the run breaks, or "".
  std::string broken_by(const Faults& faults) const {
    History silent;
    try {
      run(faults, silent);
    } catch (const sim::Violation& v) {
      return v.invariant;
    } catch (const std::exception&) {
      return "error";
    }
    return "";
  }

 private:
  sim::CalmRun run_calmly(const SimClusterOptions& options, bool golden) {
    History silent;
    SimCluster cluster(options, seed_, {}, nullptr, silent);
    try {
      cluster.run();
    } catch (const sim::Violation&) {
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
  sim::HashChain chain_;
  std::string weights_;
  std::map<int64_t, std::string> looked_;
};

sim::Scenario scenario(const std::string& name, uint64_t seeds, const DrawOptions& options,
                       const DrawFaults& faults, std::vector<uint64_t> also = {}) {
  const auto body = [options, faults](uint64_t seed, History& history) {
    const Training training(seed, options, faults);
    training.run(training.faults(), history);
  };
  const auto shrink = [name, options, faults](uint64_t seed, const std::string& invariant) {
    const Training training(seed, options, faults);
    const std::string wanted = invariant.empty() ? "error" : invariant;
    const sim::Shrunk least = sim::shrink(training.faults(), [&](const Faults& fewer) {
      return training.broken_by(fewer) == wanted;
    });
    return detail::concat(least.faults.size(), " of ", training.faults().size(), " faults break ",
                          wanted, ", after ", least.runs, " runs\n  replay: ./dev sim ", name, " ",
                          seed, " --faults \"", to_text(least.faults), "\"");
  };
  return {name, seeds, body, std::move(also), shrink};
}

const sim::Scenario cluster_step = scenario("cluster-step", 10, nullptr, nullptr);
const sim::Scenario cluster_pushes =
    scenario("cluster-pushes", 10, nullptr, [](FaultPlan& plan) { plan.lose_messages(); });
const sim::Scenario cluster_worker_kill =
    scenario("cluster-worker-kill", 10, nullptr,
             [](FaultPlan& plan) { plan.kill_workers(plan.draw.between(1, 2)); });

void checkpoints(sim::Draw& draw, SimClusterOptions& o) { o.checkpoint_every = draw.between(1, 3); }
void kill_ps(FaultPlan& plan) { plan.kill_ps(plan.draw.between(1, 2)); }
const sim::Scenario cluster_ps_kill = scenario("cluster-ps-kill", 10, checkpoints, kill_ps);
const sim::Scenario cluster_folder_away =
    scenario("cluster-folder-away", 20, checkpoints, [](FaultPlan& plan) {
      kill_ps(plan);
      plan.lose_folders();
    });
const sim::Scenario cluster_start_kill = scenario(
    "cluster-start-kill", 20, [](sim::Draw&, SimClusterOptions& o) { o.steps = 1; },
    [](FaultPlan& plan) { plan.kill_at_start(); });
const sim::Scenario cluster_start_cut =
    scenario("cluster-start-cut", 5, nullptr, [](FaultPlan& plan) { plan.cut_at_start(); });
const sim::Scenario cluster_edges = scenario(
    "cluster-edges", 10,
    [](sim::Draw& draw, SimClusterOptions& o) {
      o.edges = true;
      o.pace_ms = draw.chance(0.5) ? 300 : 0;
    },
    [](FaultPlan& plan) { plan.cut_workers(plan.draw.between(1, 2)); });

// No ps dies, so no step that was done is done again, with checkpoints and without them.
void ps_links(sim::Draw& draw, SimClusterOptions& o) {
  o.checkpoint_every = draw.between(0, 2);
  o.pace_ms = draw.chance(0.5) ? 300 : 0;
}
void lose_ps_links(FaultPlan& plan) { plan.lose_ps_links(plan.draw.between(1, 3)); }
const sim::Scenario cluster_ps_links = scenario(
    "cluster-ps-links", 30,
    [](sim::Draw& draw, SimClusterOptions& o) {
      ps_links(draw, o);
      o.pause_every = draw.between(0, 2);
    },
    [](FaultPlan& plan) {
      lose_ps_links(plan);
      plan.kill_workers(plan.draw.between(0, 1));
    });
const sim::Scenario cluster_ps_links_async = scenario(
    "cluster-ps-links-async", 20,
    [](sim::Draw& draw, SimClusterOptions& o) {
      ps_links(draw, o);
      o.rule = Aggregation::async;
    },
    lose_ps_links);
const sim::Scenario cluster_ps_links_shared = scenario(
    "cluster-ps-links-shared", 20,
    [](sim::Draw& draw, SimClusterOptions& o) {
      ps_links(draw, o);
      o.clients = 2;
    },
    lose_ps_links);
const sim::Scenario cluster_ps_links_kill = scenario(
    "cluster-ps-links-kill", 20,
    [](sim::Draw& draw, SimClusterOptions& o) {
      ps_links(draw, o);
      o.checkpoint_every = draw.between(1, 2);
    },
    [](FaultPlan& plan) {
      lose_ps_links(plan);
      plan.kill_ps(1);
    });
const sim::Scenario cluster_secret = scenario(
    "cluster-secret", 10,
    [](sim::Draw& draw, SimClusterOptions& o) {
      o.secret = true;
      o.edges = true;
      checkpoints(draw, o);
    },
    [](FaultPlan& plan) {
      plan.lose_messages();
      plan.kill_workers(plan.draw.between(0, 1));
      plan.kill_ps(plan.draw.between(0, 1));
      plan.cut_workers(plan.draw.between(0, 1));
    });
const sim::Scenario cluster_async = scenario(
    "cluster-async", 10,
    [](sim::Draw& draw, SimClusterOptions& o) {
      checkpoints(draw, o);
      o.rule = Aggregation::async;
    },
    [](FaultPlan& plan) {
      plan.lose_messages();
      plan.kill_workers(plan.draw.between(0, 1));
      plan.kill_ps(plan.draw.between(0, 1));
    });
const sim::Scenario cluster_all = scenario("cluster-all", 10, checkpoints, [](FaultPlan& plan) {
  plan.lose_messages();
  plan.kill_workers(plan.draw.between(1, 2));
  kill_ps(plan);
});

// A ps that dies while somebody looks is restored, and looked at again. The optimizer's norms are
// of whole parameters, some of which would be cut otherwise.
const sim::Scenario cluster_pauses = scenario(
    "cluster-pauses", 10,
    [](sim::Draw& draw, SimClusterOptions& o) {
      checkpoints(draw, o);
      o.optimizer = "lamb";
      o.pause_every = draw.between(1, 2);
    },
    [](FaultPlan& plan) {
      plan.kill_workers(plan.draw.between(0, 1));
      kill_ps(plan);
    });

// Between-graph replication: two programs, each with its own graph and replicas, one set of
// parameters.
const sim::Scenario cluster_container = scenario(
    "cluster-container", 10,
    [](sim::Draw& draw, SimClusterOptions& o) {
      checkpoints(draw, o);
      o.clients = 2;
    },
    [](FaultPlan& plan) {
      if (plan.draw.chance(0.5)) plan.lose_messages();
      plan.kill_workers(plan.draw.between(0, 1));
      plan.kill_ps(plan.draw.between(0, 2));
    });

// The program dies in mid-training, and its successor resumes.
const sim::Scenario cluster_program_kill = scenario(
    "cluster-program-kill", 20,
    [](sim::Draw& draw, SimClusterOptions& o) {
      o.checkpoint_every = draw.between(0, 2);
      o.rule = draw.chance(0.5) ? Aggregation::async : Aggregation::sync;
      o.pace_ms = draw.chance(0.5) ? 300 : 0;
    },
    [](FaultPlan& plan) {
      plan.kill_programs(plan.draw.between(1, 2));
      plan.kill_workers(plan.draw.between(0, 1));
    });

// Checkpoints that cannot be written cost no step, but the last one, without which a program ends.
const sim::Scenario cluster_disk = scenario("cluster-disk", 20, checkpoints, [](FaultPlan& plan) {
  plan.lose_disk(plan.draw.between(1, 3));
  plan.kill_ps(plan.draw.between(0, 1));
});
const sim::Scenario cluster_power = scenario("cluster-power", 20, checkpoints, [](FaultPlan& plan) {
  plan.fail_power(plan.draw.between(1, 2));
});
const sim::Scenario cluster_corruption =
    scenario("cluster-corruption", 20, checkpoints,
             [](FaultPlan& plan) { plan.corrupt_frames(plan.draw.between(1, 5)); });

const sim::Scenario cluster_swarm = scenario(
    "cluster-swarm", 60,
    [](sim::Draw& draw, SimClusterOptions& o) {
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
    [](FaultPlan& plan) { plan.swarm(); });

// The invariants that the first seeds break with this mistake; what is not found is "".
std::set<std::string> found(
    const std::function<void(SimClusterOptions&)>& mistake,
    const DrawFaults& faults = [](FaultPlan&) {}) {
  const sim::Scenario planted = scenario(
      "planted-cluster", 6, [&](sim::Draw&, SimClusterOptions& o) { mistake(o); }, faults);
  sim::scenario_names().pop_back();  // not for ./dev sim
  std::set<std::string> out;
  for (uint64_t seed = 1; seed <= 6; ++seed) out.insert(planted.broken_by(seed));
  out.erase("");
  return out;
}

}  // namespace

TEST_CASE("cluster-step: 2 ps and 3 workers train, and one seed gives one history") {
  cluster_step.run();
}

TEST_CASE("cluster-pushes: lost, doubled and late requests to shards change no bit") {
  cluster_pushes.run();
}

TEST_CASE("cluster-worker-kill: a worker killed within a step and started again changes no bit") {
  cluster_worker_kill.run();
}

TEST_CASE("cluster-ps-kill: a killed ps is restored with all others, and no bit changes") {
  cluster_ps_kill.run();
}

TEST_CASE("cluster-folder-away: checkpoints that cannot be read for a while are waited for") {
  cluster_folder_away.run();
}

TEST_CASE("cluster-start-kill: a process killed before the first step is not waited for in vain") {
  cluster_start_kill.run();
}

TEST_CASE("cluster-start-cut: a worker that meets a ps late learns where parameters live") {
  cluster_start_cut.run();
}

TEST_CASE("cluster-edges: a link between two workers that is cut within a step changes no bit") {
  cluster_edges.run();
}

TEST_CASE("cluster-ps-links: links to a ps that lives are lost, and no step is done again") {
  cluster_ps_links.run();
}

TEST_CASE("cluster-ps-links-async: the same where each gradient is an update") {
  cluster_ps_links_async.run();
}

TEST_CASE("cluster-ps-links-shared: the same with two programs that share parameters") {
  cluster_ps_links_shared.run();
}

TEST_CASE("cluster-ps-links-kill: the same beside a ps that dies changes no bit") {
  cluster_ps_links_kill.run();
}

// worker0 has greeted ps1, and not told of it yet, when it is told where the shards live.
TEST_CASE("a cluster whose links are cut while it joins and a ps dies trains to its end") {
  const Training training(3, checkpoints, kill_ps);
  History history;
  training.run(sim::faults_of("700:cut:ps1>worker0:500 1203:kill:ps1:15"), history);
  CHECK(history.events() > 1203);
}

TEST_CASE("cluster-secret: processes that prove a secret find each other again after all faults") {
  cluster_secret.run();
}

TEST_CASE("cluster-async: under all faults every asynchronous gradient is applied once") {
  cluster_async.run();
}

TEST_CASE("cluster-all: all faults together change no bit of synchronous training") {
  cluster_all.run();
}

TEST_CASE("cluster-pauses: whoever looks between two steps sees the weights of that step alone") {
  cluster_pauses.run();
}

TEST_CASE("cluster-container: two programs that share parameters end with the bits of one") {
  cluster_container.run();
}

TEST_CASE(
    "cluster-program-kill: a program that dies is resumed, and the shards of it disturb nobody") {
  cluster_program_kill.run();
}

TEST_CASE("cluster-disk: checkpoints that cannot be written change no bit of the training") {
  cluster_disk.run();
}

TEST_CASE("cluster-power: a checkpoint outlives the power, and the program resumes") {
  cluster_power.run();
}

TEST_CASE("cluster-corruption: a frame with another bit ends its link, and changes no bit") {
  cluster_corruption.run();
}

TEST_CASE("cluster-swarm: any faults together, each of which ends, break no invariant") {
  cluster_swarm.run();
}

TEST_CASE("a cluster that feeds other records to a step done again is found by I5") {
  CHECK(found([](SimClusterOptions& o) { o.other_data_after_kill = true; },
              [](FaultPlan& plan) { plan.kill_workers(2); }) == std::set<std::string>{"I5"});
}

TEST_CASE("a killed process that still does all that it has queued is found") {
  const auto options = [](sim::Draw&, SimClusterOptions& o) {
    o.rule = Aggregation::async;
    o.busy_after_kill = true;
  };
  const Training training(1, options, [](FaultPlan& plan) { plan.kill_ps(1); });
  Faults kill = training.faults();
  std::string broken;  // when it has a gradient in a queue
  for (int tries = 0; tries < 300 && broken != "kill"; ++tries, kill[0].at += 2)
    broken = training.broken_by(kill);
  CHECK(broken == "kill");
}

TEST_CASE("a cluster that applies an update twice is found by I1") {
  CHECK(found([](SimClusterOptions& o) { o.doubled_apply = true; }) == std::set<std::string>{"I1"});
}

TEST_CASE("acknowledged gradients that are lost while no ps dies are found by I2") {
  CHECK(found(
            [](SimClusterOptions& o) {
              o.checkpoint_every = 3;
              o.deaths_denied = true;
            },
            [](FaultPlan& plan) { plan.kill_ps(2); }) == std::set<std::string>{"I2"});
}

TEST_CASE("a checkpoint that is told of before it is on the disk is found by I13") {
  CHECK(found(
            [](SimClusterOptions& o) {
              o.checkpoint_every = 1;
              o.lying_disk = true;
            },
            [](FaultPlan& plan) { plan.fail_power(1); })
            .count("I13") == 1);
}

TEST_CASE("a training that does not get on when all faults have ended is found by I16") {
  CHECK(found([](SimClusterOptions& o) { o.cuts_stay = true; },
              [](FaultPlan& plan) { plan.cut_at_start(); }) == std::set<std::string>{"I16"});
}

TEST_CASE("a gradient that is acknowledged before it counts is found by I1") {
  CHECK(found([](SimClusterOptions& o) { o.early_acknowledgement = true; }) ==
        std::set<std::string>{"I1"});
}

TEST_CASE("a client that has the values of another version is found by I5") {
  CHECK(found([](SimClusterOptions& o) {
          o.rule = Aggregation::async;
          o.values_of_before = true;
        }) == std::set<std::string>{"I5"});
}

TEST_CASE("faults have a text that gives them back, and bad text is refused") {
  const std::string text =
      "7:kill:ps1:250 9:cut_from:worker0>client1:40 9:drop:any 12:reset:ps0>ps1";
  CHECK(to_text(sim::faults_of(text)) == text);
  for (const char* bad : {"kill:ps1", "x:kill:ps1", "7:burn:ps1", "7:kill:ps9", "7:kill:any",
                          "7:cut:ps1", "7:cut:ps1>ps1", "7:kill:ps1:x"})
    CHECK_THROWS_AS(sim::faults_of(bad), Error);
}

TEST_CASE("of many faults the few that break an invariant are found") {
  const Faults all = sim::faults_of(
      "1:kill:ps0:800 2:kill:ps1:800 3:freeze:worker0:900 4:drop:any 5:reset:ps0>ps1 6:twice:any");
  const auto broken = [](const Faults& faults) {
    const auto has = [&faults](int64_t at) {
      return std::any_of(faults.begin(), faults.end(), [at](const auto& f) { return f.at == at; });
    };
    return has(2) && has(5);
  };
  CHECK(to_text(sim::shrink(all, broken).faults) == "2:kill:ps1:50 5:reset:ps0>ps1");
}

}  // namespace troupe
