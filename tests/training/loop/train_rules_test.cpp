// train() by the rules between synchronous and asynchronous: late replicas go on at the newest
// step, bounds hold, and checkpoints are of one step.
#include "tests/support/engine/local_cluster.hpp"
#include "tests/support/fit.hpp"
#include "training/loop/train_loop.hpp"

namespace troupe {
namespace {

using Kind = Aggregation::Kind;

std::vector<std::pair<int64_t, int64_t>> started(const TrainActions& actions) {
  std::vector<std::pair<int64_t, int64_t>> out;
  for (const TrainAction& a : actions)
    if (a.kind == TrainAction::start) out.emplace_back(a.replica, a.step);
  return out;
}
using Starts = std::vector<std::pair<int64_t, int64_t>>;

TEST_CASE("with backups a late replica goes on at the newest step, and stops at the last one") {
  const TrainLoop::Millis now{0};
  TrainLoop loop({.replicas = {0, 1}, .steps = 4, .rule = {Kind::sync_backup, 1}}, {});
  CHECK(started(loop.begin(now)) == Starts{{0, 0}, {1, 0}});
  for (int64_t step = 0; step < 2; ++step)
    CHECK(started(loop.step_done(0, step, 1, now)) == Starts{{0, step + 1}});
  CHECK(loop.done_steps() == 0);
  CHECK(started(loop.step_done(1, 0, 1, now)) == Starts{{1, 2}});
  CHECK(started(loop.step_done(0, 2, 1, now)) == Starts{{0, 3}});
  const TrainActions passed = loop.step_failed(1, 2, Errc::stale, "step 2 ended", now);
  CHECK(started(passed) == Starts{{1, 3}});
  CHECK(passed.size() == 1);  // no word of it
  CHECK(loop.step_done(1, 3, 1, now).empty());
  CHECK(loop.step_done(0, 3, 1, now).back().kind == TrainAction::finish);
}

TEST_CASE("with backups an error of the program ends the training, however late") {
  const TrainLoop::Millis now{0};
  TrainLoop loop({.replicas = {0, 1}, .steps = 4, .rule = {Kind::sync_backup, 1}}, {});
  loop.begin(now);
  loop.step_done(0, 0, 1, now);
  loop.step_failed(1, 0, Errc::bad_data, "a bad record", now);
  CHECK(loop.step_done(0, 1, 1, now).back().kind == TrainAction::fail);
}

TEST_CASE("every rule trains to its end, pauses between steps, and resumes from its checkpoint") {
  for (const char* const text : {"sync-backup:1", "ssp:0", "ssp:2", "async-damped"}) {
    CAPTURE(text);
    Folder folder("train-rules");
    TrainOptions options{.rule = aggregation_from_string(text),
                         .steps = 40,
                         .checkpoint_dir = folder.path(),
                         .checkpoint_every = 10,
                         .pause_every = 5};
    std::vector<int64_t> pauses;
    options.on_pause = [&](const TrainPause& pause) {
      pauses.push_back(pause.step);
      return true;
    };
    LocalFit fit(sgd(0.01), 3);
    CHECK(fit.train(options).steps == 40);
    CHECK(pauses.size() == 8);
    CHECK(parameter_values(fit.session).at("w").item<double>() > 1);
    for (const ParameterSlice& slice : parameter_slices(fit.session)) {
      CHECK(slice.version == (options.rule->by_steps() ? 40 : 120));
      if (*options.rule == Aggregation{Kind::ssp, 0}) CHECK(slice.staleness_max <= 2);
    }
    options.resume = true;
    options.steps = 50;
    std::vector<std::string> told;
    options.on_event = [&](const TrainEvent& e) {
      if (e.kind == TrainEvent::warning) told.push_back(e.text);
    };
    LocalFit again(sgd(0.01), 3);
    CHECK(again.train(options).resumed_at == 40);
    CHECK(told.empty());
  }
}

TEST_CASE("a checkpoint of a training with backups is loaded by a program with fewer replicas") {
  Folder folder("load-rules");
  LocalFit fit(sgd(0.01), 2);
  fit.train(
      {.rule = Aggregation{Kind::sync_backup, 1}, .steps = 5, .checkpoint_dir = folder.path()});
  LocalFit one(sgd(0.01), 1);
  load_parameters(one.session, folder.path());
  CHECK(parameter_values(one.session).at("w").item<double>() ==
        parameter_values(fit.session).at("w").item<double>());
}

TEST_CASE("a bound that does not fit the towers is refused before any step") {
  LocalFit fit(sgd(0.01), 2);
  const TrainOptions options{.rule = Aggregation{Kind::sync_backup, 2}, .steps = 5};
  CHECK(error_text(Errc::invalid_argument, [&] {
          fit.train(options);
        }).find("leaves out 2 of 2 replicas") != std::string::npos);
  CHECK(fit.train(steps(2)).steps == 2);
}

TEST_CASE("backups are refused where programs share parameters") {
  const LocalCluster cluster({"/job:ps/task:0"});
  Fit fit;
  Session session = cluster.connect(fit.graph, {}, {.container = "shared", .replicas = 2});
  const TrainOptions options{.rule = Aggregation{Kind::sync_backup, 1}, .steps = 5};
  CHECK(error_text(Errc::invalid_argument, [&] {
          train(session, fit.all, options);
        }).find("wants all replicas in one program") != std::string::npos);
}

}  // namespace
}  // namespace troupe
