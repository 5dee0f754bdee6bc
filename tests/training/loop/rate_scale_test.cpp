// The rate scale of a session: from which update on it holds, in trainings that are paused, killed
// and resumed, and in loops of the program's own; and the calls that are refused.
#include <cmath>
#include <limits>
#include <map>

#include "tests/support/engine/local_cluster.hpp"
#include "tests/support/fit.hpp"

namespace troupe {
namespace {

// A tenth of the rates from step 3 on, and a fifth of that from step 6 on.
bool lower_at_3_and_6(Session& session, const TrainPause& pause) {
  set_rate_scale(session, pause.step < 6 ? 0.1 : 0.02);
  return true;
}

TrainOptions paused_at_3_and_6(int64_t n, Session& session) {
  TrainOptions options{.steps = n, .pause_every = 3};
  options.on_pause = [&session](const TrainPause& p) { return lower_at_3_and_6(session, p); };
  return options;
}

TEST_CASE("a scale that a pause sets holds from the next update on, as a schedule would") {
  for (const Optimizer& optimizer : {sgd(0.01), momentum(0.01), adam(0.01), adamw(0.01)}) {
    CAPTURE(optimizer.kind);
    LocalFit scheduled(optimizer.with(piecewise_decay({3}, 0.1))), scaled(optimizer);
    TrainOptions options{.steps = 5, .pause_every = 3};
    options.on_pause = [&](const TrainPause&) {
      CHECK(rate_scale(scaled.session) == 1);
      set_rate_scale(scaled.session, 0.1);
      CHECK(rate_scale(scaled.session) == 0.1);
      return true;
    };
    const std::string expected = scheduled.train(steps(5)).weights_sha256;
    CHECK(scaled.train(options).weights_sha256 == expected);
    CHECK(rate_scale(scaled.session) == 0.1);
    CHECK(LocalFit(optimizer).train(steps(5)).weights_sha256 != expected);
  }
}

TEST_CASE("a pause that fails finds the scale of before when it comes again") {
  LocalFit fit;
  TrainOptions options{.steps = 5, .pause_every = 3};
  int calls = 0;
  options.on_pause = [&](const TrainPause&) {
    CHECK(rate_scale(fit.session) == 1);
    set_rate_scale(fit.session, 0.1 * rate_scale(fit.session));
    if (++calls == 1) throw Error(Errc::peer_lost, "worker 0 is gone");
    return true;
  };
  LocalFit scheduled(sgd(0.01).with(piecewise_decay({3}, 0.1)));
  CHECK(fit.train(options).weights_sha256 == scheduled.train(steps(5)).weights_sha256);
  CHECK(calls == 2);
}

TEST_CASE("a training goes on with the scale of its checkpoint, another one begins at 1") {
  Folder folder("train-rate-scale");
  LocalFit whole(adam(0.05)), first(adam(0.05)), later(adam(0.05));
  const std::string expected = whole.train(paused_at_3_and_6(9, whole.session)).weights_sha256;
  TrainOptions options = paused_at_3_and_6(5, first.session);
  options.checkpoint_dir = folder.path();
  first.train(options);
  options = paused_at_3_and_6(9, later.session);
  options.checkpoint_dir = folder.path();
  options.resume = true;
  std::vector<std::string> told;
  options.on_event = [&](const TrainEvent& e) { told.push_back(e.text); };
  CHECK(later.train(options).weights_sha256 == expected);
  CHECK(rate_scale(later.session) == 0.02);
  REQUIRE(!told.empty());
  has(told[0], "resumed at step 5 from ");
  has(told[0], "at a rate scale of 0.1");
  load_parameters(first.session, folder.path());
  CHECK(rate_scale(first.session) == 0.02);
  set_parameters(first.session, parameter_values(later.session));
  CHECK(rate_scale(first.session) == 1);
  first.train(steps(2));
  CHECK(rate_scale(first.session) == 1);
}

// Trains 9 steps on a cluster of two shards; `kill` is called in each pause, after
// set_rate_scale().
void check_killed(const std::function<void(LocalCluster&, const TrainPause&)>& kill) {
  LocalFit alone(adam(0.05));
  const std::string expected = alone.train(paused_at_3_and_6(9, alone.session)).weights_sha256;
  LocalCluster cluster({"/job:ps/task:0", "/job:worker/task:0"});
  Folder folder("train-rate-scale-killed");
  Fit fit(adam(0.05));
  Session session = cluster.connect(fit.graph);
  TrainOptions options = paused_at_3_and_6(9, session);
  options.checkpoint_dir = folder.path();
  options.checkpoint_every = 2;
  options.on_pause = [&](const TrainPause& pause) {
    CHECK(rate_scale(session) == (pause.step == 3 ? 1 : pause.step == 6 ? 0.1 : 0.02));
    lower_at_3_and_6(session, pause);
    kill(cluster, pause);
    return true;
  };
  CHECK(train(session, fit.all, options).weights_sha256 == expected);
  CHECK(rate_scale(session) == 0.02);
}

TEST_CASE("shards that are killed as their scale changes end with the same bits") {
  bool killed = false;
  const auto kill_at = [&killed](int64_t step) {
    return [&killed, step](LocalCluster& cluster, const TrainPause& pause) {
      if (pause.step != step || std::exchange(killed, true)) return;
      cluster.process(0).stop();
      cluster.restart(0);
    };
  };
  SUBCASE("before the first checkpoint with it") { check_killed(kill_at(3)); }
  SUBCASE("after it") { check_killed(kill_at(6)); }
  CHECK(killed);
}

TEST_CASE("a loop of the program's own sets it between steps, also for later parameters") {
  Graph graph;
  const auto slope = [&](const char* name) {  // a weight with the gradient 1
    Output w = parameter(name, fill(graph, {}, 1, DType::f64));
    return minimize(w * 1.0, sgd(0.5));
  };
  const Output first = slope("first");
  Session session = Session::local(graph);
  session.run({first});
  set_rate_scale(session, 0.5);
  session.run({first});
  CHECK(parameter_value(session, "first").item<double>() == 1 - 0.5 - 0.25);
  const Output second = slope("second");
  session.run({second});
  CHECK(parameter_value(session, "second").item<double>() == 1 - 0.25);
  set_rate_scale(session, 1);
  session.run({second});
  CHECK(parameter_value(session, "second").item<double>() == 1 - 0.25 - 0.5);
}

TEST_CASE("a scale that cannot be set is refused, and the old one stays") {
  LocalFit fit;
  const auto refused = [](Session& session, double scale, const char* text) {
    check_error(
        Errc::invalid_argument, [&] { set_rate_scale(session, scale); }, text);
  };
  for (const double scale : {0.0, -1.0, std::nan(""), std::numeric_limits<double>::infinity()})
    refused(fit.session, scale, "wants a positive number");
  LocalFit steep(sgd(1e300)), sums(ftrl());
  refused(steep.session, 1e300, "parameter w: the rate scale 1e+300 makes the learning rate of ");
  refused(sums.session, 0.5,
          "parameter w: optimizer ftrl takes no rate scale but 1, got 0.5; what it has summed");
  set_rate_scale(sums.session, 1);
  SUBCASE("in a training, between its pauses") {
    TrainOptions options = steps(2);
    options.on_progress = [&](const TrainProgress&) { set_rate_scale(fit.session, 0.5); };
    check_error(
        Errc::invalid_argument, [&] { fit.train(options); },
        "in train() and fit() call it from on_pause or on_epoch");
    CHECK(rate_scale(fit.session) == 1);
  }
}

// Asks for scales of later steps when the training begins.
TrainOptions asked_by_step(int64_t n, Session& session, const std::map<int64_t, double>& scales) {
  TrainOptions options{.steps = n};
  options.on_progress = [&session, scales, asked = false](const TrainProgress&) mutable {
    if (std::exchange(asked, true)) return;
    for (const auto& [step, scale] : scales) set_rate_scale(session, scale, step);
  };
  return options;
}

TEST_CASE("a scale for a step holds from that step on, as a schedule would") {
  for (const Optimizer& optimizer : {sgd(0.01), adam(0.01)}) {
    CAPTURE(optimizer.kind);
    LocalFit scheduled(optimizer.with(piecewise_decay({3}, 0.1))), scaled(optimizer);
    TrainOptions options = asked_by_step(5, scaled.session, {{3, 0.1}});
    std::vector<std::string> told;
    options.on_event = [&](const TrainEvent& e) { told.push_back(e.text); };
    CHECK(scaled.train(options).weights_sha256 == scheduled.train(steps(5)).weights_sha256);
    CHECK(rate_scale(scaled.session) == 0.1);
    CHECK(told == std::vector<std::string>{"the rate scale is 0.1 from step 3 on"});
  }
}

TEST_CASE("a scale for a step counts in place of that of the step's pause, until a later pause") {
  LocalFit paused, both;
  const std::string expected = paused.train(paused_at_3_and_6(9, paused.session)).weights_sha256;
  TrainOptions options = asked_by_step(9, both.session, {{3, 0.1}});
  options.pause_every = 3;
  options.on_pause = [&](const TrainPause& pause) {
    set_rate_scale(both.session, pause.step == 3 ? 0.7 : 0.02);
    return true;
  };
  CHECK(both.train(options).weights_sha256 == expected);
  CHECK(rate_scale(both.session) == 0.02);
}

TEST_CASE("a training that resumes goes on with the scale that was set for a step") {
  Folder folder("train-rate-scale-step");
  LocalFit whole(adam(0.05)), first(adam(0.05)), later(adam(0.05));
  const std::string expected =
      whole.train(asked_by_step(9, whole.session, {{3, 0.1}})).weights_sha256;
  TrainOptions options = asked_by_step(5, first.session, {{3, 0.1}});
  options.checkpoint_dir = folder.path();
  first.train(options);
  options = steps(9);
  options.checkpoint_dir = folder.path();
  options.resume = true;
  CHECK(later.train(options).weights_sha256 == expected);
  CHECK(rate_scale(later.session) == 0.1);
}

TEST_CASE("a scale for a step that cannot hold is refused, and the training goes on") {
  LocalFit fit, sums(ftrl());
  check_invalid([&] { set_rate_scale(fit.session, 0.5, 0); },
                "set_rate_scale(): nothing is being trained; leave the step out");
  check_invalid([&] { set_rate_scale(fit.session, 0.5, -1); },
                "set_rate_scale(): the step is -1; steps count from 0");
  TrainOptions options = steps(4);
  options.on_progress = [&](const TrainProgress&) {
    check_invalid([&] { set_rate_scale(fit.session, 0, 2); }, "the rate scale is 0");
    check_invalid([&] { set_rate_scale(sums.session, 0.5, 2); }, "nothing is being trained");
  };
  CHECK(fit.train(options).weights_sha256 == trained(steps(4)).weights_sha256);
  options.on_progress = [&](const TrainProgress&) {
    check_invalid([&] { set_rate_scale(sums.session, 0.5, 2); },
                  "set_rate_scale(): parameter w: optimizer ftrl takes no rate scale but 1");
  };
  sums.train(options);
}

}  // namespace
}  // namespace troupe
