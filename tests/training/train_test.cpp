// train() in one process: what the program's own functions may do, checkpoints beside the steps,
// and what a session is good for afterwards.
#include "troupe/trainer.hpp"

#include <fcntl.h>

#include <atomic>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "troupe/ops.hpp"
#include "troupe/train.hpp"

namespace troupe {
namespace {

// Two towers that fit one weight; each step's batch is a function of it.
struct Fit {
  explicit Fit(int towers = 2) {
    for (int i = 0; i < towers; ++i) {
      auto scope = graph.scope({.name = detail::concat("tower", i), .slot = i});
      Output x = placeholder(graph, DType::f64, {-1, 1}, "x");
      Output w = parameter("w", fill(graph, {1, 1}, 0, DType::f64));
      Output loss = reduce_mean(square(matmul(x, w) - x * 3.0));
      all.push_back({i, loss, minimize(loss, sgd(0.01)), {x}, [i](int64_t step) {
                       const double v = static_cast<double>(step % 3 + i);
                       return std::vector<Tensor>{Tensor::of<double>({v, v + 1}, {2, 1})};
                     }});
    }
  }
  Graph graph;
  std::vector<Tower> all;
};

class Folder {
 public:
  explicit Folder(const std::string& name)
      : path_(std::string(TROUPE_BINARY_DIR) + "/test-" + name) {
    std::filesystem::remove_all(path_);
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  const std::string& path() const { return path_; }
  size_t manifests() const {
    size_t n = 0;
    for (const auto& entry : std::filesystem::directory_iterator(path_))
      n += entry.path().string().ends_with(".manifest.json");
    return n;
  }

 private:
  std::string path_;
};

TrainOptions steps(int64_t n) {
  TrainOptions options;
  options.steps = n;
  return options;
}

struct Stranger {  // no std::exception
  int number;
};

TEST_CASE("what the program's functions throw comes back when all towers have stopped") {
  Fit fit;
  Session session = Session::local(fit.graph, {.threads = 2});
  const std::string undisturbed = [] {
    Fit other;
    Session one = Session::local(other.graph, {.threads = 2});
    return train(one, other.all, steps(5)).weights_sha256;
  }();
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
    options.resume = true;  // there is none: an event says so
    options.on_event = [&](const TrainEvent&) {
      ++calls;
      throw Stranger{7};
    };
  }
  int got = 0;
  try {
    train(session, towers, options);
  } catch (const Stranger& s) {
    got = s.number;
  }
  CHECK(got == 7);
  CHECK(calls <= 1);
  // The session is as good as new.
  CHECK(train(session, fit.all, steps(5)).weights_sha256 == undisturbed);
}

TEST_CASE("an error of a batch comes back as it was thrown") {
  Fit fit;
  Session session = Session::local(fit.graph);
  fit.all[0].batch = [](int64_t) -> std::vector<Tensor> {
    throw Error(Errc::bad_data, "record 12 is cut");
  };
  try {
    train(session, fit.all, steps(2));
    FAIL("it did not throw");
  } catch (const Error& e) {
    CHECK(e.code() == Errc::bad_data);
    CHECK(std::string(e.what()) == "record 12 is cut");
  }
}

TEST_CASE("a resumed training that has nothing left to do names the checkpoint it is from") {
  Fit fit;
  Folder folder("train-resume");
  Session session = Session::local(fit.graph);
  TrainOptions options = steps(4);
  options.checkpoint_dir = folder.path();
  const TrainResult first = train(session, fit.all, options);
  CHECK(std::filesystem::exists(first.checkpoint));
  options.resume = true;
  const TrainResult again = train(session, fit.all, options);
  CHECK(again.resumed_at == 4);
  CHECK(again.checkpoint == first.checkpoint);
  CHECK(again.weights_sha256 == first.weights_sha256);
}

TEST_CASE("a training that was resumed from any checkpoint ends with the same bits") {
  Folder folder("train-bits");
  TrainOptions options = steps(9);
  options.checkpoint_dir = folder.path();
  options.checkpoint_every = 2;
  options.checkpoint_keep = 2;
  const auto run = [&] {
    Fit fit;
    Session session = Session::local(fit.graph, {.threads = 2});
    return train(session, fit.all, options);
  };
  const TrainResult whole = run();
  CHECK(folder.manifests() == 2);
  std::filesystem::remove(whole.checkpoint);  // the newest one left is of step 8
  options.resume = true;
  const TrainResult resumed = run();
  CHECK(resumed.resumed_at == 8);
  CHECK(resumed.weights_sha256 == whole.weights_sha256);
}

TEST_CASE(
    "of damaged checkpoints a resumed training takes the newest whole one, and none is an error") {
  Folder folder("train-damage");
  TrainOptions options = steps(6);
  options.checkpoint_dir = folder.path();
  options.checkpoint_every = 2;
  std::vector<std::string> warnings;
  options.on_event = [&](const TrainEvent& e) {
    if (e.kind == TrainEvent::warning) warnings.push_back(e.text);
  };
  const auto run = [&] {
    Fit fit;
    Session session = Session::local(fit.graph);
    return train(session, fit.all, options);
  };
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
  try {
    run();
    FAIL("it did not throw");
  } catch (const Error& e) {
    CHECK(e.code() == Errc::bad_data);
    CHECK(std::string(e.what()).find("no checkpoint in ") == 0);
    CHECK(std::string(e.what()).find("train without resume") != std::string::npos);
  }
}

TEST_CASE("a disk that fails on the way is a warning, and one that fails at the end an error") {
  Fit fit;
  Folder folder("train-disk");
  Session session = Session::local(fit.graph);
  TrainOptions options = steps(12);
  options.checkpoint_dir = folder.path();
  options.checkpoint_every = 2;
  // A file where the folder was, so that nothing can be written; and the folder again. They change
  // places at once: in between a write could make the folder anew.
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
    const TrainResult result = train(session, fit.all, options);
    REQUIRE(warnings.size() == 1);
    CHECK(warnings[0].find("the one before is kept, and training goes on") != std::string::npos);
    CHECK(result.steps == 12);
    CHECK(result.checkpoint.find("step12") != std::string::npos);
  }
  SUBCASE("at the end") {
    heals = false;
    Errc code = Errc::ok;
    std::string text;
    try {
      train(session, fit.all, options);
    } catch (const Error& e) {
      code = e.code();
      text = e.what();
    }
    CHECK(code == Errc::io);
    CHECK(exit_code(code) == 74);
    CHECK(text.find("all steps are done, but the checkpoint of the last one, 12, could not be "
                    "written") != std::string::npos);
    CHECK(!warnings.empty());
    exchange();
    CHECK(folder.manifests() >= 1);                // what was there is kept
    CHECK(parameter_values(session).size() == 1);  // and the values are in the session
  }
  std::filesystem::remove(aside);
}

TEST_CASE("a loss that is no single number is refused before training") {
  Fit fit;
  Session session = Session::local(fit.graph);
  fit.all[0].loss = fit.all[0].feeds[0];
  CHECK_THROWS_WITH_AS(train(session, fit.all, steps(1)), doctest::Contains("wants one f32 or f64"),
                       Error);
}

}  // namespace
}  // namespace troupe
