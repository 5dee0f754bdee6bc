// Fail points: each is a place of the code, and simulated trainings come to all of them.
#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/support/paths.hpp"
#include "tests/support/simulation/presets.hpp"
#include "tests/support/simulation/shard_script.hpp"

namespace troupe {
namespace {

using sim::Faults;

// The enumerators of fail points in the sources of these folders, as often as they are there.
std::multiset<std::string> points_in_code() {
  std::multiset<std::string> out;
  for (const char* folder : {"actors", "data", "devices", "net", "training"})
    for (const auto& entry :
         std::filesystem::recursive_directory_iterator(source_dir() + "/" + folder)) {
      if (entry.path().extension() != ".cpp" && entry.path().extension() != ".hpp") continue;
      std::ostringstream all;
      all << std::ifstream(entry.path()).rdbuf();
      const std::string text = all.str(), before = "(FailPoint::";
      for (size_t at = text.find(before); at != text.npos; at = text.find(before, at + 1)) {
        const size_t begin = at + before.size();
        out.insert(text.substr(begin, text.find(')', begin) - begin));
      }
    }
  return out;
}

}  // namespace

TEST_CASE("each fail point is once in the code, and has a name of its own") {
  std::set<std::string> names;
  for (const FailPointRow& row : kFailPoints) names.insert(row.name);
  CHECK(names.size() == kFailPoints.size());
  const std::multiset<std::string> used = points_in_code();
  CHECK(used.size() == kFailPoints.size());
  for (const FailPointRow& row : kFailPoints) {
    std::string enumerator = row.name;
    std::replace(enumerator.begin(), enumerator.end(), '.', '_');
    CHECK_MESSAGE(used.count(enumerator) == 1, row.name);
  }
}

TEST_CASE("simulated trainings, and a push that waits, come to each fail point") {
  std::set<FailPoint> reached;
  const auto options = [](sim::Draw&, sim::SimClusterOptions& o) {
    o.steps = 5;
    o.checkpoint_every = 1;
    o.hidden = 4200;  // gradients are large
    o.edges = true;
  };
  for (uint64_t seed = 1; seed <= 24 && reached.size() < kFailPoints.size(); ++seed) {
    const sim::Training training(seed, options, [](sim::PresetFaults& plan) {
      plan.lose_messages(10, 10, 30);
      plan.cut_workers(1);
      plan.kill_workers(1);
      plan.kill_ps(1);
    });
    const FailHook hook([&reached](FailPoint point) {
      reached.insert(point);
      return FailTable::Act{};
    });
    CHECK(training.broken_by(training.faults()) == "");
  }
  {  // Clusters run one step of a replica at a time, and no push waits for another there.
    const FailHook hook([&reached](FailPoint point) {
      reached.insert(point);
      return FailTable::Act{};
    });
    ShardScript shard = ShardScript::serving(Aggregation::sync, 1);
    shard.push(0, /*step=*/1, {vector_of({1, 1, 1, 1}), {}});
  }
  std::string missing;
  for (size_t i = 0; i < kFailPoints.size(); ++i)
    if (!reached.count(static_cast<FailPoint>(i)))
      missing += detail::concat(" ", kFailPoints[i].name);
  CHECK(missing == "");
}

TEST_CASE("a process that dies at a fail point does nothing behind it, and comes back") {
  for (const std::string point :
       {"shard.apply.before_ack", "shard.restore.before_adopt", "file.before_rename"}) {
    CAPTURE(point);
    const auto options = sim::preset_of("cluster-ps-kill").options;
    const std::string death = detail::concat("fail point ", point, " ends /job:ps/task:1");
    bool died = false, back = false;
    for (uint64_t seed = 1; seed <= 10 && !back; ++seed) {
      const sim::Training training(seed, options, [](sim::PresetFaults& plan) { plan.kill_ps(1); });
      Faults faults = training.faults();
      faults[0].who = 0;
      faults.insert(faults.begin(),
                    sim::fault_of(detail::concat("0:point:ps1:", point, "=die@1x1")));
      sim::History history(true);
      training.run(faults, history);
      for (const auto& line : history.lines()) {
        died = died || line.text == death;
        back = back || (died && line.text == "start /job:ps/task:1");
      }
    }
    CHECK(back);
  }
}

}  // namespace troupe
