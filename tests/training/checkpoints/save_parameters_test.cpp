// Checkpoints of a program that trains with Session::run().
#include "troupe/training.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tests/support/fit.hpp"

namespace troupe {
namespace {

// Runs steps [begin, end) of all towers in the program's own loop; `count`: it passes step numbers.
void run_steps(Session& session, const Fit& fit, int64_t begin, int64_t end, bool count) {
  for (int64_t step = begin; step < end; ++step) {
    std::vector<Output> fetches;
    Feeds feeds;
    for (const Tower& tower : fit.all) {
      fetches.push_back(tower.update);
      feeds.emplace_back(tower.feeds[0], tower.batch(step)[0]);
    }
    session.run(fetches, feeds, {.step = count ? step : -1});
  }
}

double weight(Session& session) { return parameter_values(session).at("w").item<double>(); }

double undisturbed(const Optimizer& optimizer, int64_t n) {
  Fit fit(optimizer);
  Session session = Session::local(fit.graph);
  train(session, fit.all, steps(n));
  return weight(session);
}

TEST_CASE("a loop of one's own goes on from its checkpoint with the bits of one that never ended") {
  const double expected = undisturbed(adam(0.1), 6);
  for (const bool count : {false, true}) {
    CAPTURE(count);
    Folder folder("save-parameters");
    {
      Fit fit(adam(0.1));
      Session session = Session::local(fit.graph);
      run_steps(session, fit, 0, 4, count);
      const std::string path = save_parameters(session, folder.path());
      CHECK(path.find(folder.path()) == 0);
      CHECK(path.find("-step4.manifest.json") != std::string::npos);
    }
    Fit fit(adam(0.1));
    Session session = Session::local(fit.graph);
    load_parameters(session, folder.path());
    run_steps(session, fit, 4, 6, count);
    CHECK(weight(session) == expected);
  }
}

TEST_CASE("train() resumes from a checkpoint of a loop of one's own") {
  Folder folder("save-then-train");
  Fit fit(adam(0.1));
  Session session = Session::local(fit.graph);
  run_steps(session, fit, 0, 4, false);
  save_parameters(session, folder.path());
  TrainOptions options = steps(6);
  options.checkpoint_dir = folder.path();
  options.resume = true;
  CHECK(train(session, fit.all, options).resumed_at == 4);
  CHECK(weight(session) == undisturbed(adam(0.1), 6));
}

TEST_CASE("a loop of one's own goes on behind what train() has done, in another session, too") {
  Folder folder("train-then-run");
  const double expected = undisturbed(momentum(0.01), 6);
  Fit first(momentum(0.01));
  TrainOptions options = steps(4);
  options.checkpoint_dir = folder.path();
  Session trained = Session::local(first.graph);
  train(trained, first.all, options);
  run_steps(trained, first, 4, 6, false);
  CHECK(weight(trained) == expected);

  Fit fit(momentum(0.01));
  Session session = Session::local(fit.graph);
  load_parameters(session, folder.path());
  run_steps(session, fit, 4, 6, false);
  CHECK(weight(session) == expected);
}

TEST_CASE("the newest checkpoints of a loop are kept, and each holds its own step") {
  Folder folder("save-keeps");
  Fit fit;
  Session session = Session::local(fit.graph);
  std::vector<double> weights;
  for (int64_t step = 0; step < 4; ++step) {
    run_steps(session, fit, step, step + 1, false);
    save_parameters(session, folder.path(), 2);
    weights.push_back(weight(session));
  }
  CHECK(folder.manifests() == 2);
  run_steps(session, fit, 4, 5, false);
  CHECK(weight(session) != weights.back());
  load_parameters(session, folder.path());  // back in the same session
  CHECK(weight(session) == weights.back());
  run_steps(session, fit, 4, 5, false);
  CHECK(weight(session) == undisturbed(sgd(0.01), 5));
}

TEST_CASE("a checkpoint of an asynchronous training says so") {
  Folder folder("save-async");
  Fit fit(sgd(0.01), 1);
  Session session = Session::local(fit.graph);
  TrainOptions options = steps(3);
  options.rule = Aggregation::async;
  train(session, fit.all, options);
  save_parameters(session, folder.path());
  const double then = weight(session);
  options.steps = 4;
  options.checkpoint_dir = folder.path();
  options.resume = true;
  CHECK(train(session, fit.all, options).resumed_at == 3);
  CHECK(weight(session) != then);
}

TEST_CASE("what cannot be saved is refused, and the session goes on") {
  Folder folder("save-refused");
  Fit fit;
  Session session = Session::local(fit.graph);
  const auto refused = [&](int keep) {
    const Refusal refusal = refusal_of([&] { save_parameters(session, folder.path(), keep); });
    CHECK((refusal.code == Errc::invalid_argument));
    return refusal.text;
  };
  CHECK(refused(3).find("run a step first") != std::string::npos);
  run_steps(session, fit, 0, 2, false);
  CHECK(refused(0).find("keeps at least 1 checkpoint, got 0") != std::string::npos);
  {
    TrainOptions options = steps(1);
    Folder taken("save-taken");
    options.checkpoint_dir = taken.path();
    options.pause_every = 1;
    Fit other;
    Session training = Session::local(other.graph);
    options.on_pause = [&](const TrainPause&) {
      CHECK_THROWS_AS(save_parameters(session, taken.path()), Error);
      return true;
    };
    train(training, other.all, options);
  }
  save_parameters(session, folder.path());
  run_steps(session, fit, 2, 3, false);
  CHECK(weight(session) == undisturbed(sgd(0.01), 3));
}

}  // namespace
}  // namespace troupe
