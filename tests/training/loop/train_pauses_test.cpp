// Pauses of train(): the arguments and rights of on_pause, and how it ends a training.
#include "tests/support/fit.hpp"
#include "tests/support/engine/local_cluster.hpp"

namespace troupe {
namespace {

double weight(Session& session) { return parameter_values(session).at("w").item<double>(); }

TEST_CASE("in a pause the parameters are those of its step, under both rules") {
  std::vector<double> by_steps;  // weights after 0, 2, 4, 6 steps
  for (int64_t n : {2, 4, 6}) {
    LocalFit fit;
    fit.train(steps(n));
    by_steps.push_back(weight(fit.session));
  }
  for (const Aggregation& rule : {Aggregation::sync, Aggregation::async}) {
    LocalFit fit;
    TrainOptions options{.rule = rule, .steps = 7, .pause_every = 2};
    std::vector<double> seen;
    std::vector<int64_t> order;  // steps of progress; pauses are negative
    options.on_progress = [&](const TrainProgress& p) { order.push_back(p.step); };
    options.on_pause = [&](const TrainPause& pause) {
      order.push_back(-pause.step);
      CHECK(pause.loss > 0);
      seen.push_back(weight(fit.session));
      for (const ParameterSlice& slice : parameter_slices(fit.session))
        CHECK(slice.version == pause.step * (rule == Aggregation::sync ? 1 : 2));
      return true;
    };
    fit.train(options);
    CHECK(order == std::vector<int64_t>{0, 1, 2, -2, 3, 4, -4, 5, 6, -6, 7});
    REQUIRE(seen.size() == 3);
    if (rule == Aggregation::sync) CHECK(seen == by_steps);
  }
}

TEST_CASE("a pause that says so ends the training at its step, with a checkpoint") {
  Folder folder("train-pause-end");
  LocalFit fit;
  TrainOptions options{
      .steps = 100, .checkpoint_dir = folder.path(), .checkpoint_every = 50, .pause_every = 3};
  options.on_pause = [](const TrainPause& pause) { return pause.step < 6; };
  const TrainResult result = fit.train(options);
  CHECK(result.steps == 6);
  CHECK(result.checkpoint.find("-step6.manifest.json") != std::string::npos);
  options.resume = true;
  options.steps = 6;
  CHECK(fit.train(options).weights_sha256 == result.weights_sha256);
}

TEST_CASE("a pause saves whole checkpoints elsewhere, of which the newest stays") {
  Folder folder("train-pause-save"), other("train-pause-best");
  LocalFit fit(momentum(0.01)), fresh(momentum(0.01));
  TrainOptions options{
      .steps = 6, .checkpoint_dir = folder.path(), .checkpoint_every = 1, .pause_every = 1};
  double saved = 0;
  std::string refused;
  options.on_pause = [&](const TrainPause& pause) {
    if (pause.step == 2 || pause.step == 4) {
      const std::string manifest = pause.save(other.path());
      CHECK(std::filesystem::exists(manifest));
      saved = weight(fit.session);
    }
    if (pause.step == 5) refused = refusal_of([&] { pause.save(folder.path()); }).text;
    return true;
  };
  const TrainResult whole = fit.train(options);
  CHECK(folder.manifests() == 3);
  CHECK(other.manifests() == 1);
  has(refused, "wants a folder of its own");
  Session again = Session::local(fresh.graph);
  load_parameters(again, other.path());
  CHECK(weight(again) == saved);
  options = steps(6);  // the optimizer's state is kept: resuming gives the same bits
  options.checkpoint_dir = other.path();
  options.resume = true;
  const TrainResult resumed = train(again, fresh.all, options);
  CHECK(resumed.resumed_at == 4);
  CHECK(resumed.weights_sha256 == whole.weights_sha256);
}

TEST_CASE("what a pause throws ends the training, but for what a lost process makes fail") {
  LocalFit fit;
  TrainOptions options{.steps = 4, .pause_every = 2};
  int calls = 0;
  std::vector<std::string> told;
  options.on_event = [&](const TrainEvent& e) { told.push_back(e.text); };
  SUBCASE("its own") {
    options.on_pause = [&](const TrainPause&) -> bool { throw Stranger{7}; };
    CHECK_THROWS_AS(fit.train(options), Stranger);
  }
  SUBCASE("a mistake") {
    options.on_pause = [&](const TrainPause&) -> bool {
      throw Error(Errc::invalid_argument, "no such metric");
    };
    CHECK_THROWS_WITH_AS(fit.train(options), "no such metric", Error);
  }
  SUBCASE("a loss") {
    options.on_pause = [&](const TrainPause&) {
      if (++calls <= 2) throw Error(Errc::peer_lost, "worker 0 is gone");
      return true;
    };
    CHECK(fit.train(options).steps == 4);
    CHECK(calls == 4);  // two failures, then steps 2 and 4
    REQUIRE(told.size() == 1);
    has(told[0], "what the program does at step 2 failed and will be done again: worker 0 is gone");
  }
}

TEST_CASE("a ps that is killed in a pause is restored, and the pause comes again") {
  LocalCluster cluster({"/job:ps/task:0", "/job:worker/task:0"});
  Folder folder("train-pause-kill");
  Fit fit(adam());
  const std::string undisturbed = trained(steps(8), adam()).weights_sha256;
  Session session = cluster.connect(fit.graph);
  TrainOptions options{
      .steps = 8, .checkpoint_dir = folder.path(), .checkpoint_every = 2, .pause_every = 3};
  bool killed = false;
  std::vector<int64_t> pauses;
  std::map<int64_t, double> seen;
  options.on_pause = [&](const TrainPause& pause) {
    pauses.push_back(pause.step);
    if (pause.step == 6 && !std::exchange(killed, true)) {
      cluster.process(0).stop();
      cluster.restart(0);
    }
    const double w = weight(session);
    CHECK(seen.emplace(pause.step, w).first->second == w);
    return true;
  };
  CHECK(train(session, fit.all, options).weights_sha256 == undisturbed);
  CHECK(pauses.size() >= 3);
  CHECK(pauses.front() == 3);
  CHECK(pauses.back() == 6);
}

TEST_CASE("pauses without a function, or at negative intervals, are refused") {
  LocalFit fit;
  TrainOptions options{.steps = 4, .pause_every = 2};
  CHECK_THROWS_WITH_AS(fit.train(options), doctest::Contains("on_pause is empty"), Error);
  options.pause_every = -1;
  options.on_pause = [](const TrainPause&) { return true; };
  CHECK_THROWS_WITH_AS(fit.train(options), doctest::Contains("wants at least 0"), Error);
}

}  // namespace
}  // namespace troupe
