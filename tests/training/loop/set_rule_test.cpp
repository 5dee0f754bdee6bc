// set_rule() in trainings: over all rules, from a pause and from another thread, through losses and
// a resume; and the calls that are refused.
#include <thread>

#include "tests/support/engine/local_cluster.hpp"
#include "tests/support/fit.hpp"

namespace troupe {
namespace {

using Kind = Aggregation::Kind;

// The changes that a training tells.
std::vector<std::string> changes_in(const std::vector<std::string>& told) {
  std::vector<std::string> out;
  for (const std::string& text : told)
    if (text.starts_with("the rule is ")) out.push_back(text);
  return out;
}

TEST_CASE("a training goes over all rules, and every gradient counts") {
  for (const int towers : {1, 3}) {
    CAPTURE(towers);
    LocalFit fit(sgd(0.01), towers);
    std::vector<std::string> told;
    TrainOptions options{.steps = 60};
    options.on_event = [&](const TrainEvent& e) { told.push_back(e.text); };
    bool asked = false;
    options.on_progress = [&](const TrainProgress&) {
      if (std::exchange(asked, true)) return;
      set_rule(fit.session, {Kind::ssp, 1}, 10);
      set_rule(fit.session, Aggregation::async, 20);
      set_rule(fit.session, Aggregation::sync, 30);
      set_rule(fit.session, {Kind::async, 0, true}, 40);
      if (towers > 1) set_rule(fit.session, {Kind::sync_backup, 1}, 50);
    };
    CHECK(fit.train(options).steps == 60);
    std::vector<std::string> expected = {"the rule is ssp:1 from step 10 on; before it was sync",
                                         "the rule is async from step 20 on; before it was ssp:1",
                                         "the rule is sync from step 30 on; before it was async",
                                         "the rule is async-damped from step 40 on; before it was "
                                         "sync"};
    if (towers > 1)
      expected.push_back("the rule is sync-backup:1 from step 50 on; before it was async-damped");
    CHECK(changes_in(told) == expected);
    // Steps by steps make one update, the others one for each tower.
    const int64_t alone = towers > 1 ? 30 : 40, together = towers > 1 ? 30 : 20;
    CHECK(parameter_slices(fit.session).at(0).version == together + alone * towers);
    CHECK(parameter_value(fit.session, "w").item<double>() > 1.5);
  }
}

TEST_CASE("to the rule that holds: a change costs no bit") {
  LocalFit fit;
  TrainOptions options{.steps = 9, .pause_every = 2};
  options.on_pause = [&](const TrainPause&) {
    set_rule(fit.session, Aggregation::sync);
    return true;
  };
  CHECK(fit.train(options).weights_sha256 == trained(steps(9)).weights_sha256);
}

TEST_CASE("a rule of a pause holds from its step on") {
  LocalFit fit;
  TrainOptions options{.steps = 9, .pause_every = 4};
  options.on_pause = [&](const TrainPause& pause) {
    if (pause.step == 4) set_rule(fit.session, Aggregation::async);
    return true;
  };
  fit.train(options);
  CHECK(parameter_slices(fit.session).at(0).version == 4 + 5 * 2);
}

TEST_CASE("another thread changes the rule of a training that runs") {
  LocalFit fit;
  std::vector<std::string> told;
  std::jthread other;
  TrainOptions options{.steps = 1'000'000, .pause_every = 1};
  options.on_event = [&](const TrainEvent& e) { told.push_back(e.text); };
  bool begun = false;
  options.on_pause = [&](const TrainPause&) {
    if (!std::exchange(begun, true))
      other = std::jthread([&] { set_rule(fit.session, {Kind::ssp, 0}); });
    return changes_in(told).empty();
  };
  fit.train(options);
  REQUIRE(changes_in(told).size() == 1);
  has(changes_in(told)[0], "the rule is ssp:0 from step ");
}

TEST_CASE("a training resumes with the rule of its checkpoint, or with the one it is given") {
  Folder folder("set-rule-resumed");
  TrainOptions options{.steps = 6, .checkpoint_dir = folder.path()};
  LocalFit first;
  options.pause_every = 2;
  options.on_pause = [&](const TrainPause& pause) {
    if (pause.step == 2) set_rule(first.session, {Kind::ssp, 3}, 4);
    return true;
  };
  first.train(options);
  CHECK(parameter_slices(first.session).at(0).version == 4 + 2 * 2);
  options.pause_every = 0;
  options.resume = true;
  options.steps = 8;
  std::vector<std::string> told;
  options.on_event = [&](const TrainEvent& e) { told.push_back(e.text); };
  LocalFit again, other;
  again.train(options);
  REQUIRE(!told.empty());
  has(told[0], "resumed at step 6 from ");
  has(told[0], ", with the rule ssp:3");
  CHECK(parameter_slices(again.session).at(0).version == 8 + 2 * 2);
  told.clear();
  options.rule = Aggregation::sync;
  options.steps = 10;
  other.train(options);
  REQUIRE(!told.empty());
  CHECK(told[0] == "the checkpoint was trained with the rule ssp:3; training goes on with sync");
  CHECK(parameter_slices(other.session).at(0).version == 12 + 2);
}

// The ps stops in the pause in which the rule is asked for.
TEST_CASE("a ps that dies as the rule changes costs no change, and no gradient counts twice") {
  LocalCluster cluster({"/job:ps/task:0", "/job:ps/task:1", "/job:worker/task:0"});
  Folder folder("set-rule-killed");
  Fit fit(adam(0.05));
  Session session = cluster.connect(fit.graph);
  TrainOptions options{
      .steps = 9, .checkpoint_dir = folder.path(), .checkpoint_every = 2, .pause_every = 3};
  std::vector<std::string> told;
  options.on_event = [&](const TrainEvent& e) { told.push_back(e.text); };
  bool killed = false;
  options.on_pause = [&](const TrainPause& pause) {
    if (pause.step == 3) set_rule(session, {Kind::ssp, 0});
    if (pause.step == 6) set_rule(session, Aggregation::async);
    if (pause.step != 6 || std::exchange(killed, true)) return true;
    cluster.process(0).stop();
    cluster.restart(0);
    return true;
  };
  CHECK(train(session, fit.all, options).steps == 9);
  CHECK(killed);
  CHECK(changes_in(told).back() == "the rule is async from step 6 on; before it was ssp:0");
  for (const ParameterSlice& slice : parameter_slices(session)) CHECK(slice.version == 3 + 6 * 2);
}

TEST_CASE("a rule that cannot hold is refused, and the training goes on with its own") {
  const auto refused = [](Session& session, const Aggregation& rule, const char* text,
                          int64_t step = 0) {
    check_error(
        Errc::invalid_argument, [&] { set_rule(session, rule, step); }, text);
  };
  LocalFit fit, sums(ftrl());
  refused(fit.session, Aggregation::async, "set_rule(): nothing is being trained; ");
  refused(fit.session, Aggregation::async, "set_rule(): the step is -1; ", -1);
  TrainOptions options = steps(4);
  options.on_progress = [&](const TrainProgress&) {
    refused(fit.session, {Kind::sync_backup, 2}, "leaves out 2 of 2 replicas");
    refused(fit.session, {Kind::sync_backup, 0}, "has no backup replica");
    refused(fit.session, {Kind::ssp, -1}, "wants a number of at least 0");
    refused(fit.session, {Kind::sync, 0, true}, "no staleness to damp");
  };
  CHECK(fit.train(options).weights_sha256 == trained(steps(4)).weights_sha256);
  refused(fit.session, Aggregation::async, "set_rule(): nothing is being trained; ");
  options.on_progress = [&](const TrainProgress&) {
    refused(sums.session, {Kind::async, 0, true}, "parameter w is trained by ftrl");
  };
  sums.train(options);
  SUBCASE("for a container that programs share") {
    const LocalCluster cluster({"/job:ps/task:0"});
    Session session = cluster.connect(fit.graph, {}, {.container = "shared", .replicas = 2});
    refused(session, Aggregation::async, "are in a container that programs share");
  }
}

}  // namespace
}  // namespace troupe
