// Checkpoints of a program that trains with Session::run().
#include <algorithm>
#include <filesystem>
#include <fstream>

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
      LocalFit fit(adam(0.1));
      run_steps(fit.session, fit, 0, 4, count);
      const std::string path = save_parameters(fit.session, folder.path());
      CHECK(path.find(folder.path()) == 0);
      CHECK(path.find("-step4.manifest.json") != std::string::npos);
    }
    LocalFit fit(adam(0.1));
    load_parameters(fit.session, folder.path());
    run_steps(fit.session, fit, 4, 6, count);
    CHECK(weight(fit.session) == expected);
  }
}

TEST_CASE("train() resumes from a checkpoint of a loop of one's own") {
  Folder folder("save-then-train");
  LocalFit fit(adam(0.1));
  run_steps(fit.session, fit, 0, 4, false);
  save_parameters(fit.session, folder.path());
  TrainOptions options{.steps = 6, .checkpoint_dir = folder.path(), .resume = true};
  CHECK(fit.train(options).resumed_at == 4);
  CHECK(weight(fit.session) == undisturbed(adam(0.1), 6));
}

TEST_CASE("a loop of one's own goes on behind what train() has done, in another session, too") {
  Folder folder("train-then-run");
  const double expected = undisturbed(momentum(0.01), 6);
  Fit first(momentum(0.01));
  TrainOptions options{.steps = 4, .checkpoint_dir = folder.path()};
  Session trained = Session::local(first.graph);
  train(trained, first.all, options);
  run_steps(trained, first, 4, 6, false);
  CHECK(weight(trained) == expected);

  LocalFit fit(momentum(0.01));
  load_parameters(fit.session, folder.path());
  run_steps(fit.session, fit, 4, 6, false);
  CHECK(weight(fit.session) == expected);
}

TEST_CASE("the newest checkpoints of a loop are kept, and each holds its own step") {
  Folder folder("save-keeps");
  LocalFit fit;
  std::vector<double> weights;
  for (int64_t step = 0; step < 4; ++step) {
    run_steps(fit.session, fit, step, step + 1, false);
    save_parameters(fit.session, folder.path(), 2);
    weights.push_back(weight(fit.session));
  }
  CHECK(folder.manifests() == 2);
  run_steps(fit.session, fit, 4, 5, false);
  CHECK(weight(fit.session) != weights.back());
  load_parameters(fit.session, folder.path());  // back in the same session
  CHECK(weight(fit.session) == weights.back());
  run_steps(fit.session, fit, 4, 5, false);
  CHECK(weight(fit.session) == undisturbed(sgd(0.01), 5));
}

TEST_CASE("a checkpoint of an asynchronous training says so") {
  Folder folder("save-async");
  LocalFit fit(sgd(0.01), 1);
  TrainOptions options{.rule = Aggregation::async, .steps = 3};
  fit.train(options);
  save_parameters(fit.session, folder.path());
  const double then = weight(fit.session);
  options.steps = 4;
  options.checkpoint_dir = folder.path();
  options.resume = true;
  CHECK(fit.train(options).resumed_at == 3);
  CHECK(weight(fit.session) != then);
}

TEST_CASE("a folder keeps the checkpoints of one run, which goes on where it was loaded") {
  Folder folder("save-of-another-run");
  std::vector<std::string> files;
  const auto listed = [&] {
    std::vector<std::string> out;
    for (const auto& entry : std::filesystem::directory_iterator(folder.path()))
      out.push_back(entry.path().string());
    std::sort(out.begin(), out.end());
    return out;
  };
  double last = 0;
  {
    LocalFit fit;
    for (int64_t step = 0; step < 3; ++step) {
      run_steps(fit.session, fit, step, step + 1, false);
      save_parameters(fit.session, folder.path());
    }
    last = weight(fit.session);
    files = listed();
  }
  LocalFit other;
  run_steps(other.session, other, 0, 1, false);
  check_invalid([&] { save_parameters(other.session, folder.path(), 1); },
                folder.path() + " has checkpoints of another run, the newest is 000003-step3",
                "load_parameters()", "choose another folder");
  CHECK(listed() == files);
  load_parameters(other.session, folder.path() + "/");
  CHECK(weight(other.session) == last);
  run_steps(other.session, other, 3, 4, false);
  save_parameters(other.session, folder.path(), 2);
  CHECK(folder.manifests() == 2);

  LocalFit third;  // its run is another one, though it has the parameters
  load_parameters(third.session, folder.path(), {.strict = false});
  check_invalid([&] { save_parameters(third.session, folder.path()); }, "of another run");
}

TEST_CASE("a loop goes on in its folder when the newest checkpoint there is damaged") {
  Folder folder("save-behind-damage");
  {
    LocalFit fit;
    for (int64_t step = 0; step < 2; ++step) {
      run_steps(fit.session, fit, step, step + 1, false);
      save_parameters(fit.session, folder.path());
    }
  }
  std::filesystem::path newest;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path()))
    if (entry.path().string().ends_with(".manifest.json") && entry.path() > newest)
      newest = entry.path();
  std::ofstream(newest, std::ios::app) << "damage";
  LocalFit again;
  load_parameters(again.session, folder.path());  // the older one
  run_steps(again.session, again, 1, 3, false);
  const double last = weight(again.session);
  save_parameters(again.session, folder.path());
  LocalFit third;
  load_parameters(third.session, folder.path());
  CHECK(weight(third.session) == last);
}

TEST_CASE("a loop saves into the folder of the session's own training") {
  Folder folder("save-after-train");
  LocalFit fit;
  TrainOptions options{.steps = 2, .checkpoint_dir = folder.path()};
  fit.train(options);
  run_steps(fit.session, fit, 2, 3, false);
  save_parameters(fit.session, folder.path());
  CHECK(folder.manifests() == 2);
}

TEST_CASE("what cannot be saved is refused, and the session goes on") {
  Folder folder("save-refused");
  LocalFit fit;
  const auto save = [&](int keep) { save_parameters(fit.session, folder.path(), keep); };
  check_invalid([&] { save(3); }, "run a step first");
  run_steps(fit.session, fit, 0, 2, false);
  check_invalid([&] { save(0); }, "keeps at least 1 checkpoint, got 0");
  {
    TrainOptions options = steps(1);
    Folder taken("save-taken");
    options.checkpoint_dir = taken.path();
    options.pause_every = 1;
    Fit other;
    Session training = Session::local(other.graph);
    options.on_pause = [&](const TrainPause&) {
      CHECK_THROWS_AS(save_parameters(fit.session, taken.path()), Error);
      return true;
    };
    train(training, other.all, options);
  }
  save_parameters(fit.session, folder.path());
  run_steps(fit.session, fit, 2, 3, false);
  CHECK(weight(fit.session) == undisturbed(sgd(0.01), 3));
}

}  // namespace
}  // namespace troupe
