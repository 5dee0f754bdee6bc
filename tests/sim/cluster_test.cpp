// Whole clusters in one thread: a training over 2 ps, 3 workers and one or two clients, without
// faults and with those of each preset, and with any of them together (cluster-swarm).

#include "tests/support/simulation/presets.hpp"

namespace troupe {
namespace {

using sim::AddFaults;
using sim::Faults;
using sim::History;
using sim::PresetFaults;
using sim::SimClusterOptions;
using sim::Training;
using sim::training_scenario;

sim::Scenario scenario(const std::string& name) {
  const sim::Preset preset = sim::preset_of(name);
  return training_scenario(name, preset.seeds, preset.options, preset.faults);
}
const sim::Scenario cluster_step = scenario("cluster-step");
const sim::Scenario cluster_pushes = scenario("cluster-pushes");
const sim::Scenario cluster_worker_kill = scenario("cluster-worker-kill");
const sim::Scenario cluster_compressed = scenario("cluster-compressed");
const sim::Scenario cluster_residuals = scenario("cluster-residuals");
const sim::Scenario cluster_ps_kill = scenario("cluster-ps-kill");
const sim::Scenario cluster_table = scenario("cluster-table");
const sim::Scenario cluster_folder_away = scenario("cluster-folder-away");
const sim::Scenario cluster_start_kill = scenario("cluster-start-kill");
const sim::Scenario cluster_start_cut = scenario("cluster-start-cut");
const sim::Scenario cluster_edges = scenario("cluster-edges");
const sim::Scenario cluster_ps_links = scenario("cluster-ps-links");
const sim::Scenario cluster_ps_links_async = scenario("cluster-ps-links-async");
const sim::Scenario cluster_ps_links_shared = scenario("cluster-ps-links-shared");
const sim::Scenario cluster_ps_links_kill = scenario("cluster-ps-links-kill");
const sim::Scenario cluster_secret = scenario("cluster-secret");
const sim::Scenario cluster_async = scenario("cluster-async");
const sim::Scenario cluster_sync_backup = scenario("cluster-sync-backup");
const sim::Scenario cluster_ssp = scenario("cluster-ssp");
const sim::Scenario cluster_replay = scenario("cluster-replay");
const sim::Scenario cluster_local = scenario("cluster-local");
const sim::Scenario cluster_local_rules = scenario("cluster-local-rules");
const sim::Scenario cluster_rules = scenario("cluster-rules");
const sim::Scenario cluster_scales = scenario("cluster-scales");
const sim::Scenario cluster_own_rules = scenario("cluster-own-rules");
const sim::Scenario cluster_all = scenario("cluster-all");
const sim::Scenario cluster_pauses = scenario("cluster-pauses");
const sim::Scenario cluster_container = scenario("cluster-container");
const sim::Scenario cluster_program_kill = scenario("cluster-program-kill");
const sim::Scenario cluster_handed_on = scenario("cluster-handed-on");
const sim::Scenario cluster_disk = scenario("cluster-disk");
const sim::Scenario cluster_power = scenario("cluster-power");
const sim::Scenario cluster_corruption = scenario("cluster-corruption");
const sim::Scenario cluster_corruption_large = scenario("cluster-corruption-large");
const sim::Scenario cluster_one_machine = scenario("cluster-one-machine");
const sim::Scenario cluster_moves = scenario("cluster-moves");
const sim::Scenario cluster_points = scenario("cluster-points");
const sim::Scenario cluster_swarm = scenario("cluster-swarm");

// Options and faults of a preset, for trainings with faults of their own.
const sim::DrawOptions checkpoints = sim::preset_of("cluster-ps-kill").options;
const AddFaults kill_ps = sim::preset_of("cluster-ps-kill").faults;

// The invariants that the first seeds break with this mistake; what is not found is "".
std::set<std::string> found(
    const std::function<void(SimClusterOptions&)>& mistake,
    const AddFaults& faults = [](PresetFaults&) {}) {
  const sim::Scenario planted = training_scenario(
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

TEST_CASE("cluster-compressed: codes are the same after a worker or a ps was killed") {
  cluster_compressed.run();
}

TEST_CASE("cluster-residuals: the death of a worker takes all back to where no residual is") {
  cluster_residuals.run();
}

TEST_CASE("cluster-worker-kill: a worker killed within a step and started again changes no bit") {
  cluster_worker_kill.run();
}

TEST_CASE("cluster-ps-kill: a killed ps is restored with all others, and no bit changes") {
  cluster_ps_kill.run();
}

TEST_CASE("cluster-table: rows made and forgotten are those of a run in which no ps has died") {
  cluster_table.run();
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

TEST_CASE("cluster-sync-backup: each step is an update, and late gradients alone do not count") {
  cluster_sync_backup.run();
}

TEST_CASE("cluster-ssp: every gradient is applied once, and no replica reads past its bound") {
  cluster_ssp.run();
}

TEST_CASE("cluster-own-rules: each parameter follows its rule, and each gradient counts once") {
  cluster_own_rules.run();
}

TEST_CASE("cluster-replay: the order that a run has recorded gives its bits under other delays") {
  cluster_replay.run();
}

TEST_CASE("cluster-local: rounds of local steps have the same bits, whatever dies within them") {
  cluster_local.run();
}

TEST_CASE("cluster-local-rules: rounds of local steps take turns with other rules") {
  cluster_local_rules.run();
}

TEST_CASE("cluster-rules: the rule changes while things fail, and each gradient counts once") {
  cluster_rules.run();
}

TEST_CASE("cluster-scales: steps that are done again have the rate scale of the first time") {
  cluster_scales.run();
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

TEST_CASE("cluster-handed-on: a container whose owner dies has another one, and loses no step") {
  cluster_handed_on.run();
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

TEST_CASE("cluster-corruption-large: the same where tensors travel in chunks") {
  cluster_corruption_large.run();
}

// The first large tensor on a link is a first value of a parameter, on its way to the program.
TEST_CASE("a first value that is damaged on its way changes no bit") {
  const Training training(
      1, [](sim::Draw&, SimClusterOptions& o) { o.hidden = 4200; }, [](PresetFaults&) {});
  History history;
  training.run(sim::faults_of("1:corrupt_large:any:5959"), history);
  CHECK(history.events() > 1);
}

TEST_CASE("cluster-one-machine: tensors that are read in place change no bit") {
  cluster_one_machine.run();
}

TEST_CASE(
    "cluster-moves: replicas move between workers that come, leave and freeze, and no bit "
    "changes") {
  cluster_moves.run();
}

TEST_CASE("cluster-points: what happens at any fail point breaks no invariant") {
  cluster_points.run();
}

TEST_CASE("cluster-swarm: any faults together, each of which ends, break no invariant") {
  cluster_swarm.run();
}

TEST_CASE("a cluster that feeds other records to a step done again is found by I5") {
  CHECK(found([](SimClusterOptions& o) { o.other_data_after_kill = true; },
              [](PresetFaults& plan) { plan.kill_workers(2); }) == std::set<std::string>{"I5"});
}

TEST_CASE("a killed process that still does all that it has queued is found") {
  const auto options = [](sim::Draw&, SimClusterOptions& o) {
    o.rule = Aggregation::async;
    o.busy_after_kill = true;
  };
  const Training training(1, options, [](PresetFaults& plan) { plan.kill_ps(1); });
  Faults kill = training.faults();
  std::string broken;  // when it has a gradient in a queue
  for (int tries = 0; tries < 300 && broken != "kill"; ++tries, kill[0].at += 2)
    broken = training.broken_by(kill);
  CHECK(broken == "kill");
}

TEST_CASE("a cluster that applies an update twice is found by I1") {
  CHECK(found([](SimClusterOptions& o) { o.doubled_apply = true; }) == std::set<std::string>{"I1"});
}

TEST_CASE("asynchronous values that the gradients of their updates do not give are found by I8") {
  CHECK(found([](SimClusterOptions& o) {
          o.rule = Aggregation::async;
          o.other_gradient = true;
        }) == std::set<std::string>{"I8"});
}

TEST_CASE("acknowledged gradients that are lost while no ps dies are found by I2") {
  CHECK(found(
            [](SimClusterOptions& o) {
              o.checkpoint_every = 3;
              o.deaths_denied = true;
            },
            [](PresetFaults& plan) { plan.kill_ps(2); }) == std::set<std::string>{"I2"});
}

TEST_CASE("a checkpoint that is told of before it is on the disk is found by I13") {
  CHECK(found(
            [](SimClusterOptions& o) {
              o.checkpoint_every = 1;
              o.lying_disk = true;
            },
            [](PresetFaults& plan) { plan.fail_power(1); })
            .count("I13") == 1);
}

TEST_CASE("a checkpoint that a dead program was told of, and its successor passes over, is found") {
  CHECK(found(
            [](SimClusterOptions& o) {
              o.checkpoint_every = 1;
              o.rule = Aggregation::async;
              o.pace_ms = 300;
              o.forgetful_program = true;
            },
            [](PresetFaults& plan) { plan.kill_programs(1); })
            .count("I13") == 1);
}

TEST_CASE("a checkpoint that nobody loads, and has other files than it says, is found by I14") {
  CHECK(found([](SimClusterOptions& o) {
          o.checkpoint_every = 2;
          o.damaged_files = true;
        }) == std::set<std::string>{"I14"});
}

TEST_CASE("a step that is under way for seven seconds without a word is found by I17") {
  const auto wait = [](sim::OpenSteps& steps) {
    for (int i = 0; i < 200; ++i) steps.tick();
  };
  sim::OpenSteps silent, told, idle;
  silent.starts(silent.add());
  CHECK_THROWS_AS(wait(silent), sim::Violation);
  told.starts(told.add());
  told.log("still under way: run=1 since=5 s");
  wait(told);
  const int64_t step = idle.add();
  wait(idle);
  idle.starts(step);
  idle.ends(step);
  wait(idle);
  CHECK(idle.size() == 1);
}

TEST_CASE("a training that does not get on when all faults have ended is found by I16") {
  CHECK(found([](SimClusterOptions& o) { o.cuts_stay = true; },
              [](PresetFaults& plan) { plan.cut_at_start(); }) == std::set<std::string>{"I16"});
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
      "7:kill:ps1:250 9:cut_from:worker0>client1:40 9:drop:any 12:reset:ps0>ps1 "
      "13:point:ps1:shard.apply.before_ack=sleep:200@3x1 14:disk_error:ps0:3 "
      "15:corrupt_large:any:77";
  CHECK(to_text(sim::faults_of(text)) == text);
  for (const char* bad :
       {"kill:ps1", "x:kill:ps1", "7:burn:ps1", "7:kill:ps9", "7:kill:any", "7:cut:ps1",
        "7:cut:ps1>ps1", "7:kill:ps1:x", "7:freeze:any:9", "7:point:ps1", "7:point:any:link.up=die",
        "7:corrupt_large:ps0>", "7:point:ps1:link.up=burn", "7:point:ps1:ps1/link.up=die"})
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
