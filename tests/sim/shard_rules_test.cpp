// The parameter protocol under loss, repetition, disorder, killed workers and lost shards: the
// rules of a shard between simple workers, without actors. The last tests plant mistakes and see
// that the checks find them.
#include <set>

#include "tests/support/simulation/sim_shards.hpp"

namespace troupe {
namespace {

using sim::History;
using sim::Planted;
using sim::ShardWorld;
using sim::ShardWorldOptions;

// A run with the faults of this seed, compared with one without.
void run_shards(uint64_t seed, History& history, const Aggregation& rule, Planted planted,
                bool bad = false) {
  sim::Draw draw(seed);
  ShardWorldOptions options = ShardWorldOptions::draw(draw, rule);
  options.planted = planted;
  options.bad = bad;
  History silent;
  ShardWorld golden(options.without_faults(), seed, nullptr, silent);
  golden.run();
  ShardWorld(options, seed, rule == Aggregation::sync ? &golden.chain() : nullptr, history).run();
}

sim::Scenario scenario(const std::string& name, uint64_t seeds, const Aggregation& rule,
                       Planted planted = Planted::none) {
  return {name, seeds,
          [=](uint64_t seed, History& history) { run_shards(seed, history, rule, planted); }};
}

const sim::Scenario shards_sync = scenario("shards-sync", 300, Aggregation::sync);
const sim::Scenario shards_backup =
    scenario("shards-sync-backup", 300, ShardWorldOptions::backups(1));
const sim::Scenario shards_async = scenario("shards-async", 300, Aggregation::async);
const sim::Scenario shards_ssp = scenario("shards-ssp", 300, ShardWorldOptions::ahead(0));

sim::Scenario bad_scenario(const std::string& name, const Aggregation& rule) {
  return {name, 100, [=](uint64_t seed, History& history) {
            run_shards(seed, history, rule, Planted::none, /*bad=*/true);
          }};
}
const sim::Scenario bad_scenarios[] = {
    bad_scenario("shards-sync-bad", Aggregation::sync),
    bad_scenario("shards-sync-backup-bad", ShardWorldOptions::backups(1)),
    bad_scenario("shards-async-bad", Aggregation::async),
    bad_scenario("shards-ssp-bad", ShardWorldOptions::ahead(0))};

// The invariants that the first `seeds` runs with this mistake break; what is not found is "".
std::set<std::string> found(Planted planted, const Aggregation& rule, uint64_t seeds = 40) {
  static int count = 0;
  const sim::Scenario planted_scenario =
      scenario("planted-" + std::to_string(++count), seeds, rule, planted);
  sim::scenario_names().pop_back();  // not for ./dev sim
  std::set<std::string> out;
  for (uint64_t seed = 1; seed <= seeds; ++seed) out.insert(planted_scenario.broken_by(seed));
  out.erase("");
  return out;
}

}  // namespace

TEST_CASE(
    "shards-sync: synchronous updates have the bits of a run without faults, whatever is lost") {
  shards_sync.run();
}

TEST_CASE("shards-async: every asynchronous gradient is applied once, whatever is lost") {
  shards_async.run();
}

TEST_CASE("shards-sync-backup: each step is one update, and only late gradients do not count") {
  shards_backup.run();
}

TEST_CASE("shards-ssp: every gradient is applied once, and no replica reads past its bound") {
  shards_ssp.run();
}

TEST_CASE("gradients that are not finite change nothing under any rule, whatever is lost") {
  for (const sim::Scenario& scenario : bad_scenarios) scenario.run();
}

TEST_CASE("a worker that takes a fresh sequence and step after a lost acknowledgement is found") {
  CHECK(!found(Planted::fresh_step, Aggregation::sync).empty());
  CHECK(found(Planted::fresh_step, Aggregation::async).count("I1"));
}

TEST_CASE("an update that is applied twice is found by I1") {
  CHECK(found(Planted::doubled_apply, Aggregation::sync) == std::set<std::string>{"I1"});
  CHECK(found(Planted::doubled_apply, Aggregation::async) == std::set<std::string>{"I1"});
}

TEST_CASE("a shard that goes back without a new epoch is found by I3") {
  CHECK(found(Planted::same_epoch, Aggregation::sync).count("I3"));
  CHECK(found(Planted::same_epoch, Aggregation::async).count("I3"));
}

TEST_CASE("a sum in another order is found by I6") {
  CHECK(found(Planted::swapped_sum, Aggregation::sync) == std::set<std::string>{"I6"});
}

TEST_CASE("a step that is done again with another bit is found by I5") {
  CHECK(found(Planted::torn_gradient, Aggregation::sync) == std::set<std::string>{"I5"});
}

TEST_CASE("a request that is never answered is found by I21") {
  CHECK(found(Planted::no_resend, Aggregation::sync) == std::set<std::string>{"I21"});
}

TEST_CASE("a choice that the seed does not decide is found by I23") {
  CHECK(found(Planted::outside_random, Aggregation::async, 3) == std::set<std::string>{"I23"});
}

}  // namespace troupe
