// train() in one process: the rights of the program's own functions, checkpoints beside the steps,
// and the session afterwards.

#include <fcntl.h>

#include <atomic>
#include <fstream>

#include "tests/support/fit.hpp"

namespace troupe {
namespace {

// The refusal of a training.
std::string refusal(Session& session, const std::vector<Tower>& towers,
                    const TrainOptions& options) {
  return error_text(Errc::invalid_argument, [&] { train(session, towers, options); });
}

TEST_CASE("what the program's functions throw comes back when all towers have stopped") {
  LocalFit fit;
  const std::string undisturbed = trained(steps(5)).weights_sha256;
  Folder folder("train-throws");
  std::vector<Tower> towers = fit.all;
  TrainOptions options = steps(100);
  std::atomic<int> calls{0};
  SUBCASE("a batch") {
    towers[1].batch = [&, good = fit.all[1].batch](int64_t step) {
      if (step == 3) throw Stranger{7};
      return good(step);
    };
  }
  SUBCASE("on_progress") {
    options.on_progress = [&](const TrainProgress& p) {
      if (p.step >= 3) throw Stranger{7};
    };
  }
  SUBCASE("on_event") {
    options.checkpoint_dir = folder.path();
    options.resume = true;  // there is no checkpoint: an event says so
    options.on_event = [&](const TrainEvent&) {
      ++calls;
      throw Stranger{7};
    };
  }
  int got = 0;
  try {
    train(fit.session, towers, options);
  } catch (const Stranger& s) {
    got = s.number;
  }
  CHECK(got == 7);
  CHECK(calls <= 1);
  // The session is fully usable again.
  TrainOptions anew{.steps = 5, .anew = true};
  CHECK(fit.train(anew).weights_sha256 == undisturbed);
}

TEST_CASE("an error of a batch comes back as it was thrown") {
  LocalFit fit;
  fit.all[0].batch = [](int64_t) -> std::vector<Tensor> {
    throw Error(Errc::bad_data, "record 12 is cut");
  };
  CHECK(error_text(Errc::bad_data, [&] { fit.train(steps(2)); }) == "record 12 is cut");
}

TEST_CASE("a resumed training that has nothing left to do names the checkpoint it is from") {
  LocalFit fit;
  Folder folder("train-resume");
  TrainOptions options{.steps = 4, .checkpoint_dir = folder.path()};
  const TrainResult first = fit.train(options);
  CHECK(std::filesystem::exists(first.checkpoint));
  options.resume = true;
  const TrainResult again = fit.train(options);
  CHECK(again.resumed_at == 4);
  CHECK(again.checkpoint == first.checkpoint);
  CHECK(again.weights_sha256 == first.weights_sha256);
}

TEST_CASE("a training that is resumed where there is nothing says so, and begins") {
  LocalFit fit;
  Folder folder("train-nothing");
  TrainOptions options{.steps = 4, .checkpoint_dir = folder.path(), .resume = true};
  std::vector<std::string> told;
  options.on_event = [&](const TrainEvent& e) { told.push_back(e.text); };
  const TrainResult result = fit.train(options);
  CHECK(result.resumed_at == 0);
  CHECK(result.steps == 4);
  REQUIRE(told.size() == 1);
  CHECK(told[0] == "no checkpoint in " + folder.path() +
                       "; training from the start. Stop it and name the folder, if there is one "
                       "elsewhere");
}

TEST_CASE("a training that is resumed with another rule says so, and goes on") {
  LocalFit fit;
  Folder folder("train-rule");
  TrainOptions options{.steps = 4, .checkpoint_dir = folder.path()};
  fit.train(options);
  options.resume = true;
  options.steps = 6;
  options.rule = Aggregation::async;
  std::vector<std::string> told;
  options.on_event = [&](const TrainEvent& e) {
    if (e.kind == TrainEvent::warning) told.push_back(e.text);
  };
  const TrainResult result = fit.train(options);
  CHECK(result.resumed_at == 4);
  CHECK(result.steps == 6);
  CHECK(told == std::vector<std::string>{"the checkpoint was trained with the rule sync; training "
                                         "goes on with async"});
}

TEST_CASE("a training that was resumed from any checkpoint ends with the same bits") {
  Folder folder("train-bits");
  TrainOptions options{
      .steps = 9, .checkpoint_dir = folder.path(), .checkpoint_every = 2, .checkpoint_keep = 2};
  const auto run = [&] { return trained(options); };
  const TrainResult whole = run();
  CHECK(folder.manifests() == 2);
  std::filesystem::remove(whole.checkpoint);  // the newest one left has step 8
  options.resume = true;
  const TrainResult resumed = run();
  CHECK(resumed.resumed_at == 8);
  CHECK(resumed.weights_sha256 == whole.weights_sha256);
}

TEST_CASE(
    "of damaged checkpoints a resumed training takes the newest whole one, and none is an error") {
  Folder folder("train-damage");
  TrainOptions options{.steps = 6, .checkpoint_dir = folder.path(), .checkpoint_every = 2};
  std::vector<std::string> warnings;
  options.on_event = [&](const TrainEvent& e) {
    if (e.kind == TrainEvent::warning) warnings.push_back(e.text);
  };
  const auto run = [&] { return trained(options); };
  const TrainResult whole = run();
  const auto flip = [&](const std::string& part) {  // a byte in the middle of each such file
    for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
      if (entry.path().string().find(part) == std::string::npos) continue;
      std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
      file.seekp(static_cast<std::streamoff>(entry.file_size() / 2));
      file.put('\x7f');
    }
  };
  options.resume = true;
  flip("step6.shard-0");
  const TrainResult resumed = run();
  CHECK(resumed.resumed_at == 4);
  CHECK(resumed.weights_sha256 == whole.weights_sha256);
  REQUIRE(warnings.size() == 1);
  CHECK(warnings[0].find("the checkpoint of step 6 cannot be used, trying the one before") == 0);
  flip(".manifest.json");
  const std::string text = error_text(Errc::bad_data, run);
  CHECK(text.starts_with("no checkpoint in "));
  has(text, "train without resume");
}

TEST_CASE(
    "a disk that fails on the way is a warning, and one at the end costs the last checkpoint") {
  LocalFit fit;
  Folder folder("train-disk");
  TrainOptions options{.steps = 12, .checkpoint_dir = folder.path(), .checkpoint_every = 2};
  // Puts a file where the folder was, so that no file can be written; and the folder back. The two
  // swap atomically, since a write in between could make the folder again.
  const std::string aside = folder.path() + "-aside";
  std::ofstream(aside) << "x";
  const auto exchange = [&] {
    REQUIRE(renameat2(AT_FDCWD, folder.path().c_str(), AT_FDCWD, aside.c_str(), RENAME_EXCHANGE) ==
            0);
  };
  std::vector<std::string> warnings;
  bool broken = false, heals = true;
  options.on_event = [&](const TrainEvent& e) {
    if (e.kind != TrainEvent::warning) return;
    warnings.push_back(e.text);
    if (broken && heals) broken = false, exchange();
  };
  options.on_progress = [&](const TrainProgress& p) {
    if (p.step >= 5 && !broken && warnings.empty()) broken = true, exchange();
  };
  SUBCASE("on the way") {
    const TrainResult result = fit.train(options);
    REQUIRE(warnings.size() == 1);
    CHECK(warnings[0].find(" is kept, and training goes on: ") != std::string::npos);
    CHECK(result.steps == 12);
    CHECK(result.checkpoint.find("step12") != std::string::npos);
  }
  SUBCASE("at the end") {
    heals = false;
    options.patience = std::chrono::milliseconds(300);
    const TrainResult result = fit.train(options);
    CHECK(result.steps == 12);
    CHECK(result.weights_sha256 == trained(steps(12)).weights_sha256);
    CHECK(result.checkpoint.find("step12") == std::string::npos);
    has(result.unsaved,
        "all steps are done, but the checkpoint of the last one, 12, could not be written");
    has(warnings.back(), "save them elsewhere");
    exchange();
    CHECK(folder.manifests() >= 1);                    // existing files are kept
    CHECK(parameter_values(fit.session).size() == 1);  // and the session has the values
  }
  std::filesystem::remove(aside);
}

TEST_CASE("a loss that is no single number is refused before training") {
  LocalFit fit;
  fit.all[0].loss = fit.all[0].feeds[0];
  CHECK_THROWS_WITH_AS(fit.train(steps(1)), doctest::Contains("wants one f32 or f64"), Error);
}

TEST_CASE("a folder with checkpoints is trained into by resuming only") {
  Folder folder("train-used");
  TrainOptions options{.steps = 4, .checkpoint_dir = folder.path(), .checkpoint_every = 1};
  LocalFit fit;
  const TrainResult first = fit.train(options);
  CHECK(folder.manifests() == 3);
  options.steps = 1;
  const std::string text = refusal(fit.session, fit.all, options);
  CHECK(text.find(folder.path()) == 0);
  has(text, "the newest is " + std::filesystem::path(first.checkpoint).filename().string());
  has(text, "resume = true, choose another checkpoint_dir, or empty this one");
  CHECK(folder.manifests() == 3);
  CHECK(std::filesystem::exists(first.checkpoint));
  options.resume = true;
  has(refusal(fit.session, fit.all, options), "is of step 4, TrainOptions::steps is 1; ask for");
  options.steps = 4;  // the session still has the values of the first training
  CHECK(fit.train(options).weights_sha256 == first.weights_sha256);
}

TEST_CASE("a checkpoint folder is of one training at a time") {
  Folder folder("train-claimed");
  Fit fit, other;
  Session session = Session::local(fit.graph), second = Session::local(other.graph);
  TrainOptions options{.steps = 3, .checkpoint_dir = folder.path()}, same = options;
  same.resume = true;
  std::string text;
  options.on_progress = [&](const TrainProgress&) {
    if (text.empty()) text = refusal(second, other.all, same);
  };
  train(session, fit.all, options);
  CHECK(text.find("another training writes its checkpoints to " + folder.path()) == 0);
  CHECK(train(second, other.all, same).resumed_at == 3);
}

TEST_CASE("a checkpoint of another optimizer is refused, one with other numbers is not") {
  Folder folder("train-optimizer");
  TrainOptions options{.steps = 2, .checkpoint_dir = folder.path()};
  const auto session_of = [](Fit& fit) { return Session::local(fit.graph); };
  {
    Fit fit;
    Session session = session_of(fit);
    train(session, fit.all, options);
  }
  options.resume = true;
  options.steps = 3;
  Fit adams(adam()), faster(sgd(0.02));
  Session session = session_of(adams), faster_session = session_of(faster);
  const std::string text = refusal(session, adams.all, options);
  has(text, "has trained parameter w with sgd, the graph trains it with adam; use sgd again");
  CHECK(train(faster_session, faster.all, options).resumed_at == 2);
}

TEST_CASE("a parameter has one optimizer") {
  Fit fit;
  fit.all[1].update = minimize(fit.all[1].loss, adam());
  Session session = Session::local(fit.graph);
  const std::string text = refusal(session, fit.all, steps(1));
  has(text, "parameter w is trained with sgd(learning rate 0.01) and, by PushGradient node ");
  has(text, "with adam(learning rate 0.001, beta1 0.9, beta2 0.999, epsilon 1e-08); give minimize");
  CHECK_THROWS_WITH_AS(
      session.run({fit.all[0].update}, {{fit.all[0].feeds[0], fit.all[0].batch(0)[0]}}),
      doctest::Contains("parameter w is trained with"), Error);
}

TEST_CASE("a tower that is put together wrongly is refused, naming what is wrong") {
  LocalFit fit;
  SUBCASE("exchanged") {
    std::swap(fit.all[1].loss, fit.all[1].update);
    has(refusal(fit.session, fit.all, steps(1)), "are Tower::loss and Tower::update exchanged?");
  }
  SUBCASE("no update") {
    fit.all[1].update = {};
    has(refusal(fit.session, fit.all, steps(1)), "Tower::update of replica 1 is empty");
  }
  SUBCASE("no batch") {
    fit.all[1].batch = nullptr;
    has(refusal(fit.session, fit.all, steps(1)),
        "Tower::batch of replica 1 is empty: give a function that makes the values of its 1 feeds");
  }
}

TEST_CASE("a number of TrainOptions that says nothing is refused, naming what is allowed") {
  LocalFit fit;
  TrainOptions options = steps(1);
  std::string wanted;
  SUBCASE("every") {
    options.checkpoint_every = -5;
    wanted = "TrainOptions::checkpoint_every is -5; wants 0 (only at the end) or more steps";
  }
  SUBCASE("keep") {
    options.checkpoint_keep = 0;
    wanted = "TrainOptions::checkpoint_keep is 0; wants at least 1 checkpoint";
  }
  SUBCASE("examples") {
    options.examples_per_step = -1;
    wanted = "TrainOptions::examples_per_step is -1; wants 0 (not known) or more";
  }
  SUBCASE("patience") {
    options.patience = std::chrono::milliseconds(-1);
    wanted = "TrainOptions::patience is -1; wants 0 ms or more";
  }
  SUBCASE("replica") {
    fit.all[1].replica = -1;
    wanted = "Tower::replica is -1; wants a number from 0";
  }
  CHECK(refusal(fit.session, fit.all, options) == wanted);
}

TEST_CASE("progress is told once at first and once for each step") {
  LocalFit fit;
  TrainOptions options = steps(5);
  std::vector<int64_t> told;
  options.on_progress = [&](const TrainProgress& p) { told.push_back(p.step); };
  fit.train(options);
  CHECK(told == std::vector<int64_t>{0, 1, 2, 3, 4, 5});
}

TEST_CASE("a new session computes with the parameters of a checkpoint") {
  Folder folder("train-load");
  TrainOptions options{.steps = 6, .checkpoint_dir = folder.path()};
  const auto loss = [](Session& session, Fit& fit) {
    return session.run({fit.all[0].loss}, {{fit.all[0].feeds[0], fit.all[0].batch(1)[0]}})[0]
        .item<double>();
  };
  Fit trained(adam()), fresh(adam());
  Session session = Session::local(trained.graph), other = Session::local(fresh.graph);
  CHECK_THROWS_WITH_AS(load_parameters(other, folder.path()),
                       doctest::Contains("there is no checkpoint in"), Error);
  train(session, trained.all, options);
  const double before = loss(other, fresh);
  load_parameters(other, folder.path());
  CHECK(loss(other, fresh) == loss(session, trained));
  CHECK(loss(other, fresh) != before);
  CHECK(train(other, fresh.all, steps(1)).resumed_at == 0);  // a training sets its own start
}

TEST_CASE("who loads an older checkpoint because the newest is damaged is told") {
  Folder folder("train-load-damaged");
  TrainOptions options{.steps = 6, .checkpoint_dir = folder.path(), .checkpoint_every = 3};
  Fit trained, fresh;
  Session session = Session::local(trained.graph);
  const std::filesystem::path newest = train(session, trained.all, options).checkpoint;
  std::ofstream(newest, std::ios::trunc) << "{";
  std::string told;
  Session other = Session::local(
      fresh.graph, {.log = [&](LogLevel, const std::string& line) { told += line + "\n"; }});
  load_parameters(other, folder.path());
  has(told, newest.filename().string());
}

}  // namespace
}  // namespace troupe
