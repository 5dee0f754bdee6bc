// Records of the order of updates in simulated clusters: a disk that is full, and orders that
// differ from seed to seed.
#include <set>

#include "tests/support/simulation/presets.hpp"

namespace troupe {
namespace {

using sim::History;
using sim::SimCluster;
using sim::SimClusterOptions;

SimClusterOptions async_options(uint64_t seed) {
  sim::Draw draw(seed);
  SimClusterOptions o = sim::draw_cluster_options(draw);
  o.rule = Aggregation::async;
  o.steps = 6;
  o.checkpoint_every = 2;
  o.optimizer = "sgd";
  o.record = true;
  return o;
}

TEST_CASE("asynchronous trainings differ by their order, and a record of each gives its bits") {
  std::set<std::string> weights;
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    const SimClusterOptions options = async_options(1);
    History history;
    SimCluster first(options, seed, {}, nullptr, history);
    first.run();
    weights.insert(first.weights());
    SimClusterOptions again = options;
    again.record = false;
    again.replay = first.disk().files(sim::kRecordFolder);
    for (uint64_t other = 11; other <= 13; ++other) {
      History silent;
      SimCluster second(again, other, {}, nullptr, silent);
      second.run();
      CHECK(second.weights() == first.weights());
    }
  }
  CHECK(weights.size() > 3);
}

TEST_CASE("a replay that loses a worker and a ps has the bits of its record") {
  SimClusterOptions options = async_options(2);
  options.pace_ms = 50;
  History silent;
  SimCluster first(options, 1, {}, nullptr, silent);
  first.run();
  const int64_t begun = first.calm().begun, events = first.calm().ended - begun;
  options.record = false;
  options.replay = first.disk().files(sim::kRecordFolder);
  int64_t struck = 0;
  for (int64_t i = 1; i <= 12; ++i) {
    const std::string text =
        detail::concat(begun + events * i / 14, ":kill:", i % 2 == 0 ? "ps" : "worker", i % 3 % 2,
                       ":200 ", begun + events * i / 13 + 40, ":kill:worker2:300");
    CAPTURE(text);
    History history;
    SimCluster again(options, 100 + static_cast<uint64_t>(i), sim::faults_of(text), nullptr,
                     history);
    again.run();
    CHECK(again.weights() == first.weights());
    for (const auto& [kind, times] : again.outcome().faults) struck += times;
  }
  CHECK(struck > 12);
}

TEST_CASE("a disk that is full for a while ends the record, and not the training") {
  const SimClusterOptions options = async_options(1);
  History calm, history;
  SimCluster undisturbed(options, 1, {}, nullptr, calm);
  undisturbed.run();
  const int64_t begun = undisturbed.calm().begun;
  const auto full = sim::faults_of(detail::concat(begun, ":disk_full:ps0:2000"));
  SimCluster cluster(options, 1, full, nullptr, history);
  cluster.run();  // to the end
  SimDisk disk;
  for (const auto& [name, bytes] : cluster.disk().files(sim::kRecordFolder))
    disk.put(detail::concat("/record/", name), bytes);
  const OrderRecord record = read_record(disk, "/record", [](const std::string&) { return false; });
  CHECK(record.end < options.steps);
  CHECK_THROWS_AS(check_replay(record, "/record", record.terms, options.steps), Error);
}

}  // namespace
}  // namespace troupe
