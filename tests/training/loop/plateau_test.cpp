// fit() with FitOptions::plateau: when the rates fall, also after a resume, and the history that
// decides it.
#include <filesystem>
#include <fstream>

#include "data/files/disk.hpp"
#include "tests/support/fit.hpp"
#include "tests/support/fit_epochs.hpp"
#include "tests/support/two_classes.hpp"
#include "training/loop/fit_history.hpp"

namespace troupe {
namespace {

TEST_CASE("a plateau lowers the scale once its epochs at one scale have brought nothing") {
  FitHistory history({.watch = "a", .plateau = {.epochs = 2, .factor = 0.5, .least = 0.3}});
  double scale = 1;
  std::vector<double> scales;
  for (const double score : {0.5, 0.4, 0.6, 0.6, 0.6, 0.6, 0.5, 0.5, 0.5, 0.5, 0.7}) {
    const auto epoch = static_cast<int64_t>(scales.size()) + 1;
    FitEpoch e{.epoch = epoch, .step = 10 * epoch, .scores = {{"a", score}}, .rate_scale = scale};
    history.add(e);
    scale = history.lower_scale().value_or(scale);
    scales.push_back(scale);
  }
  CHECK(scales == std::vector<double>{1, 1, 1, 1, 0.5, 0.5, 0.3, 0.3, 0.3, 0.3, 0.3});
  // Back to the end of epoch 4: its scale, and the epochs waited before it, are those of then.
  FitEpoch again{.epoch = 5, .step = 50, .scores = {{"a", 0.6}}, .rate_scale = 1};
  history.add(again);
  CHECK(history.lower_scale() == 0.5);
}

TEST_CASE("a history of the first form has a rate scale of 1") {
  Folder folder("fit-first-form");
  std::filesystem::create_directories(folder.path());
  std::ofstream(folder.path() + "/epochs.txt")
      << "troupe epochs 1\nbest 1 step 5 score 0.5\n"
         "epoch 1 step 5 loss 0.25 best 1 \"accuracy\" 0.5\n";
  FitHistory history({.watch = "accuracy"});
  history.load(real_disk(), folder.path());
  REQUIRE(history.epochs().size() == 1);
  CHECK(history.epochs()[0].rate_scale == 1);
  CHECK(history.epochs()[0].scores.at("accuracy") == 0.5);
  FitEpoch second{.epoch = 2, .step = 10, .rate_scale = 0.1};
  history.add(second);
  history.save(real_disk(), folder.path());
  FitHistory read({.watch = "accuracy"});
  read.load(real_disk(), folder.path());
  check_same(read.epochs(), history.epochs());
}

TEST_CASE("fit on a plateau lowers the rates, also in a training that is resumed") {
  Folder folder("fit-plateau"), other("fit-plateau-whole");
  std::vector<double> seen;
  const auto run = [&](const Folder& in, int64_t epochs, bool resume, std::vector<double> scores) {
    TwoClasses net;
    Session session = Session::local(net.graph);
    FitOptions options = net.options(epochs);
    options.evaluation.metrics.push_back(scripted(std::move(scores)));
    options.watch = "scripted";
    options.plateau = {.epochs = 2, .factor = 0.5};
    options.train.checkpoint_dir = in.path();
    options.train.resume = resume;
    options.on_epoch = [&](const FitEpoch& epoch) {
      if (epoch.epoch == 6) set_rate_scale(session, 0.125);  // in place of the plateau's
      return true;
    };
    const FitResult result = fit(session, net.all, net.data, options);
    seen.clear();
    for (const FitEpoch& epoch : result.history) seen.push_back(epoch.rate_scale);
    CHECK(rate_scale(session) == (epochs > 6 ? 0.125 : 0.5));
    return result;
  };
  const FitResult whole = run(other, 8, false, {5, 6, 6, 6, 6, 6, 7, 7});
  CHECK(seen == std::vector<double>{1, 1, 1, 1, 0.5, 0.5, 0.125, 0.125});
  run(folder, 5, false, {5, 6, 6, 6, 6});
  const FitResult resumed = run(folder, 8, true, {6, 7, 7});
  CHECK(resumed.training.weights_sha256 == whole.training.weights_sha256);
  check_same(resumed.history, whole.history);
}

TEST_CASE("a plateau that cannot work is refused before the first step") {
  TwoClasses net, sums(ftrl());
  Session session = Session::local(net.graph), other = Session::local(sums.graph);
  const auto refused = [](Session& session, TwoClasses& net, const Plateau& plateau,
                          const char* text) {
    FitOptions options = net.options(1);
    options.plateau = plateau;
    check_invalid([&] { fit(session, net.all, net.data, options); }, text);
  };
  refused(session, net, {.epochs = -1}, "FitOptions::plateau.epochs");
  refused(session, net, {.epochs = 1, .factor = 1}, "wants a factor in (0, 1)");
  refused(session, net, {.epochs = 1, .least = -1}, "wants a factor in (0, 1)");
  refused(other, sums, {.epochs = 1}, "optimizer ftrl takes no rate scale but 1");
  FitOptions blind{.plateau = {.epochs = 1}};
  check_invalid([&] { fit(session, net.all, net.data, blind); }, "give FitOptions::validation");
}

}  // namespace
}  // namespace troupe
