// Trainings with local steps: what rounds give, where checkpoints, pauses and changes of the rule
// come, and what is refused.
#include "tests/support/fit.hpp"
#include "training/loop/train_loop.hpp"

namespace troupe {
namespace {

Aggregation local(int64_t steps) { return {.kind = Aggregation::Kind::local, .bound = steps}; }

double weight_after(const Aggregation& rule, const Optimizer& optimizer, int towers,
                    int64_t steps) {
  LocalFit fit(optimizer, towers);
  fit.train({.rule = rule, .steps = steps});
  CHECK(parameter_slices(fit.session).at(0).version == steps);
  return parameter_value(fit.session, "w").item<double>();
}

// One step of the tower on w, without a shard: the gradient of mean((x w - 3 x)^2).
double descend(double w, int64_t replica, int64_t step, double rate) {
  const auto v = static_cast<double>(step % 3 + replica);
  return w - rate * (v * v + (v + 1) * (v + 1)) * (w - 3);
}

TEST_CASE("rounds are the mean of what each replica does alone") {
  constexpr int64_t kSteps = 12, kRound = 4;
  double want = 0;
  for (int64_t first = 0; first < kSteps; first += kRound) {
    double sum = 0;
    for (int64_t replica = 0; replica < 3; ++replica) {
      double mine = want;
      for (int64_t step = first; step < first + kRound; ++step)
        mine = descend(mine, replica, step, 0.01);
      sum += mine;
    }
    want = sum / 3;
  }
  CHECK(weight_after(local(kRound), sgd(0.01), 3, kSteps) == doctest::Approx(want).epsilon(1e-12));
}

TEST_CASE("one replica alone learns as without rounds, if its optimizer has no state") {
  const double alone = weight_after(Aggregation::sync, sgd(0.01), 1, 12);
  for (const int64_t round : {1, 3, 12})
    CHECK(weight_after(local(round), sgd(0.01), 1, 12) == doctest::Approx(alone).epsilon(1e-12));
  // Schedules count steps, not rounds.
  const Optimizer decayed = sgd(0.05).with(exponential_decay(1, 0.8));
  CHECK(weight_after(local(4), decayed, 1, 12) ==
        doctest::Approx(weight_after(Aggregation::sync, decayed, 1, 12)).epsilon(1e-12));
}

TEST_CASE("rounds of one step of sgd are the synchronous rule, except for rounding") {
  CHECK(weight_after(local(1), sgd(0.01), 3, 10) ==
        doctest::Approx(weight_after(Aggregation::sync, sgd(0.01), 3, 10)).epsilon(1e-12));
}

TEST_CASE("every run has the same bits, and every optimizer learns") {
  for (const Optimizer& optimizer : {sgd(0.01), momentum(0.005), adam(0.1), lamb(0.1)})
    for (const char* rule : {"local:5", "diloco:5"}) {
      CAPTURE(describe(optimizer));
      const TrainOptions options{.rule = aggregation_from_string(rule), .steps = 20};
      LocalFit first(optimizer, 3), second(optimizer, 3);
      CHECK(first.train(options).weights_sha256 == second.train(options).weights_sha256);
      const double w = parameter_value(first.session, "w").item<double>();
      CHECK(w > 0.5);
    }
}

TEST_CASE(
    "checkpoints and pauses come at the ends of rounds, and a training resumes with its bits") {
  Folder folder("train-local");
  const TrainOptions whole{.rule = aggregation_from_string("diloco:4"), .steps = 24};
  const std::string want = trained(whole, momentum(0.005)).weights_sha256;
  TrainOptions options = whole;
  options.steps = 16;
  options.checkpoint_dir = folder.path();
  options.checkpoint_every = 6;
  options.pause_every = 5;
  std::vector<int64_t> pauses;
  options.on_pause = [&](const TrainPause& pause) {
    pauses.push_back(pause.step);
    return true;
  };
  trained(options, momentum(0.005));
  CHECK(pauses == std::vector<int64_t>{8, 12, 16});  // of 5, 10 and 15
  options.resume = true;
  options.steps = 24;
  LocalFit again(momentum(0.005));
  const TrainResult result = again.train(options);
  CHECK(result.resumed_at == 16);
  CHECK(result.weights_sha256 == want);
}

TEST_CASE("a rate scale of a pause holds in the rounds that follow") {
  LocalFit fit(sgd(0.01), 1), half(sgd(0.005), 1);
  TrainOptions options{.rule = local(4), .steps = 8, .pause_every = 4};
  double at_4 = 0;
  options.on_pause = [&](const TrainPause& pause) {
    if (pause.step == 4) {
      at_4 = parameter_value(fit.session, "w").item<double>();
      set_rate_scale(fit.session, 0.5);
    }
    return true;
  };
  fit.train(options);
  double want = at_4;
  for (int64_t step = 4; step < 8; ++step) want = descend(want, 0, step, 0.005);
  CHECK(parameter_value(fit.session, "w").item<double>() == doctest::Approx(want).epsilon(1e-12));
}

TEST_CASE("to a rule of local steps and back: changes wait for the end of a round") {
  LocalFit fit(adam(0.05));
  std::vector<std::string> told;
  TrainOptions options{.steps = 24};
  options.on_event = [&](const TrainEvent& e) { told.push_back(e.text); };
  bool asked = false;
  options.on_progress = [&](const TrainProgress&) {
    if (std::exchange(asked, true)) return;
    set_rule(fit.session, local(4), 6);
    set_rule(fit.session, Aggregation::sync, 10);
  };
  CHECK(fit.train(options).steps == 24);
  CHECK(told ==
        std::vector<std::string>{"the rule is local:4 from step 6 on; before it was sync",
                                 "the rule is sync from step 12 on; before it was local:4"});
  CHECK(parameter_slices(fit.session).at(0).version == 24);
}

TEST_CASE("rounds that do not fit are refused before any step") {
  const auto refusal = [](TrainOptions options, const Optimizer& optimizer = sgd(0.01)) {
    LocalFit fit(optimizer);
    return error_text(Errc::invalid_argument, [&] { fit.train(options); });
  };
  CHECK(refusal({.rule = local(8), .steps = 20})
            .find("the training has 20 steps, and each round of local:8 has 8; take 24 steps") !=
        std::string::npos);
  CHECK(refusal({.rule = local(0), .steps = 20}).find("at least 1 step") != std::string::npos);
  CHECK(refusal({.rule = local(4), .steps = 20}, ftrl()).find("trained by ftrl") !=
        std::string::npos);
  CHECK(refusal({.rule = local(4), .bad_gradients = TrainOptions::BadGradients::skip, .steps = 20})
            .find("cannot be skipped under local:4") != std::string::npos);
  LocalFit fit;
  TrainOptions options{.steps = 10, .pause_every = 5};
  std::string refused;
  options.on_pause = [&](const TrainPause& pause) {
    if (pause.step == 5)
      refused = error_text(Errc::invalid_argument, [&] { set_rule(fit.session, local(4)); });
    return true;
  };
  CHECK(fit.train(options).steps == 10);
  CHECK(refused.find("take 12 steps") != std::string::npos);
}

TEST_CASE("a gradient that is not finite names its step within the round") {
  LocalFit fit(sgd(1e200));
  const std::string text =
      error_text(Errc::bad_data, [&] { fit.train({.rule = local(8), .steps = 16}); });
  CHECK(text.find("step ") != std::string::npos);
}

// ---- the loop alone ----

// A loop of two replicas in rounds of four steps, of which each has done six.
struct Within {
  TrainLoop loop;
  TrainLoop::Millis now{0};
  std::map<int64_t, int64_t> started;  // by replica
  std::vector<std::string> told;
  bool finished = false;

  explicit Within(int64_t steps) : loop(plan(steps), {}) {
    take(loop.begin(now));
    for (int64_t step = 0; step < 6; ++step)
      for (const int64_t replica : {0, 1}) take(loop.step_done(replica, step, 1, now));
  }
  static TrainLoop::Plan plan(int64_t steps) {
    return {.replicas = {0, 1}, .steps = steps, .rule = local(4)};
  }
  void take(const TrainActions& actions) {
    for (const TrainAction& a : actions) {
      if (a.kind == TrainAction::start) started[a.replica] = a.step;
      if (a.kind == TrainAction::tell) told.push_back(a.text);
      finished |= a.kind == TrainAction::finish;
    }
  }
  void fail(int64_t replica, Errc code) {
    const int64_t step = started.at(replica);
    started.erase(replica);
    take(loop.step_failed(replica, step, code, "why", now));
    now += TrainLoop::Millis(1000);
    take(loop.tick(now));
  }
};

TEST_CASE("a replica whose process has lost its copies begins the round again") {
  Within world(8);
  CHECK(world.started == std::map<int64_t, int64_t>{{0, 6}, {1, 6}});
  world.fail(1, Errc::peer_lost);  // a link: the copies are there
  CHECK(world.started == std::map<int64_t, int64_t>{{0, 6}, {1, 6}});
  world.fail(1, Errc::stale);
  CHECK(world.started == std::map<int64_t, int64_t>{{0, 6}, {1, 4}});
  world.take(world.loop.step_done(1, 4, 1, world.now));
  world.fail(1, Errc::stale);
  CHECK(world.started == std::map<int64_t, int64_t>{{0, 6}, {1, 4}});
}

TEST_CASE("data that end within a round end the training where the round began") {
  Within world(12);
  world.fail(0, Errc::end_of_data);
  CHECK(!world.finished);
  world.fail(1, Errc::cancelled);
  CHECK(world.finished);
  CHECK(world.loop.done_steps() == 4);
  CHECK(world.told.front() ==
        "the data end before step 6, in the round of step 4 of local:4, and training ends where "
        "that round began");
}

}  // namespace
}  // namespace troupe
