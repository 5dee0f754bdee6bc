// train() with gradients that are not finite: it ends, goes on without them, or goes back; and the
// ledger of all pushes.
#include <cmath>
#include <map>

#include "tests/support/engine/local_cluster.hpp"
#include "tests/support/fit.hpp"
#include "training/loop/train_loop.hpp"

namespace troupe {
namespace {

using Bad = TrainOptions::BadGradients;

constexpr int64_t kBadStep = 3;

// Replica 1 has a NaN in its data of one step.
void plant(Fit& fit) {
  fit.all.at(1).batch = [batch = fit.all.at(1).batch](int64_t step) {
    if (step != kBadStep) return batch(step);
    return std::vector<Tensor>{Tensor::of<double>({1, NAN}, {2, 1})};
  };
}

struct BadFit : LocalFit {
  BadFit() : LocalFit(sgd(0.01), 2) { plant(*this); }
};

std::map<int64_t, PushCount> by_replica(Session& session) {
  std::map<int64_t, PushCount> out;
  for (const PushCount& count : push_ledger(session)) out[count.replica] = count;
  return out;
}

TEST_CASE("a training without a policy ends at a gradient that is not finite") {
  BadFit fit;
  CHECK(code_of([&] { fit.train(steps(10)); }) == Errc::bad_data);
}

TEST_CASE("skip: a step is the update of the other replica, and a warning tells of the loss") {
  TrainOptions options{.bad_gradients = Bad::skip, .steps = 10};
  std::vector<std::string> told;
  options.on_event = [&](const TrainEvent& e) { told.push_back(e.text); };
  BadFit fit;
  const TrainResult result = fit.train(options);
  CHECK(result.steps == 10);
  CHECK(std::isfinite(result.loss));
  REQUIRE(told.size() == 1);
  CHECK(told[0].starts_with("the loss of replica 1 in step 3 is "));
  // The same by hand: w moves by the rate times the mean of the gradients 2 * (w - 3) * mean(x^2).
  double w = 0;
  for (int64_t step = 0; step < 10; ++step) {
    double sum = 0;
    const int towers = step == kBadStep ? 1 : 2;
    for (int i = 0; i < towers; ++i) {
      const double v = static_cast<double>(step % 3 + i);
      sum += (w - 3) * (v * v + (v + 1) * (v + 1));
    }
    w -= 0.01 * sum / towers;
  }
  CHECK(parameter_values(fit.session).at("w").item<double>() == doctest::Approx(w));
  const auto ledger = by_replica(fit.session);
  CHECK(ledger.at(0).received == 10);
  CHECK(ledger.at(0).merged == 9);
  CHECK(ledger.at(0).applied == 1);
  CHECK(ledger.at(0).refused.empty());
  CHECK(ledger.at(1).merged == 9);
  CHECK(ledger.at(1).refused == std::map<std::string, int64_t>{{"not finite", 1}});
  CHECK(ledger.at(1).parameter == "w");
}

TEST_CASE("skip: synchronous training has the same bits in one process and on a cluster") {
  const TrainOptions options{.bad_gradients = Bad::skip, .steps = 10};
  const std::string alone = BadFit().train(options).weights_sha256;
  LocalCluster cluster({"/job:ps/task:0"});
  Fit fit;
  plant(fit);
  Session session = cluster.connect(fit.graph);
  CHECK(train(session, fit.all, options).weights_sha256 == alone);
  const auto ledger = by_replica(session);
  CHECK(ledger.at(1).task == "/job:ps/task:0");
  CHECK(ledger.at(1).refused.at("not finite") == 1);
}

TEST_CASE("skip: every rule trains to its end") {
  for (const char* const text : {"sync-backup:1", "ssp:1", "async", "async-damped"}) {
    CAPTURE(text);
    BadFit fit;
    const TrainResult result =
        fit.train({.rule = aggregation_from_string(text), .bad_gradients = Bad::skip, .steps = 10});
    CHECK(result.steps == 10);
    CHECK(std::isfinite(parameter_values(fit.session).at("w").item<double>()));
  }
}

TEST_CASE("skip: a replica alone whose gradients are never finite leaves the values alone") {
  LocalFit fit(sgd(0.01), 1);
  fit.all[0].batch = [](int64_t) { return std::vector<Tensor>{Tensor::of<double>({NAN}, {1, 1})}; };
  const TrainResult result = fit.train({.bad_gradients = Bad::skip, .steps = 5});
  CHECK(result.steps == 5);
  CHECK(std::isnan(result.loss));
  CHECK(parameter_values(fit.session).at("w").item<double>() == 0);
  CHECK(parameter_slices(fit.session).at(0).version == 5);
}

TEST_CASE("roll_back: a fault that passes leaves the weights of an undisturbed training") {
  Folder folder("roll-back");
  TrainOptions options{.bad_gradients = Bad::roll_back,
                       .steps = 10,
                       .checkpoint_dir = folder.path(),
                       .checkpoint_every = 2};
  std::vector<std::string> told;
  options.on_event = [&](const TrainEvent& e) { told.push_back(e.text); };
  LocalFit fit(sgd(0.01), 2);
  bool planted = false;
  fit.all[1].batch = [&planted, batch = fit.all[1].batch](int64_t step) {
    if (step != 5 || std::exchange(planted, true)) return batch(step);
    return std::vector<Tensor>{Tensor::of<double>({1, NAN}, {2, 1})};
  };
  const TrainResult result = fit.train(options);
  CHECK(result.recoveries == 1);
  CHECK(result.weights_sha256 == trained(steps(10)).weights_sha256);
  REQUIRE(told.size() == 2);
  CHECK(told[0].starts_with("step 5 of replica 1: "));
  CHECK(
      told[0].ends_with("all towers go back to the newest checkpoint, which is number 1 of at "
                        "most 3"));
  CHECK(told[1].starts_with("shards restored at step "));  // the newest that has been written
}

TEST_CASE("roll_back: the same step ends the training when it fails again") {
  Folder folder("roll-back-again");
  BadFit fit;
  TrainOptions options{.bad_gradients = Bad::roll_back,
                       .steps = 10,
                       .checkpoint_dir = folder.path(),
                       .checkpoint_every = 2};
  int64_t told = 0;
  options.on_event = [&](const TrainEvent&) { ++told; };
  CHECK(code_of([&] { fit.train(options); }) == Errc::bad_data);
  CHECK(told == 2);  // once back, and restored
}

TEST_CASE("roll_back wants a folder with checkpoints") {
  BadFit fit;
  const Refusal refusal =
      refusal_of([&] { fit.train({.bad_gradients = Bad::roll_back, .steps = 10}); });
  CHECK(refusal.code == Errc::invalid_argument);
  CHECK(refusal.text.find("checkpoint_dir") != refusal.text.npos);
}

TEST_CASE("a loop goes back so often in all, and each time restores shards that are as they were") {
  const TrainLoop::Millis now{0};
  TrainLoop loop({.replicas = {0}, .steps = 9, .checkpoints = true, .roll_backs = 2}, {});
  loop.begin(now);
  const auto fail = [&](int64_t step) {
    return loop.step_failed(0, step, Errc::bad_data, "nan", now);
  };
  for (const int64_t step : {1, 2}) {
    for (int64_t done = 0; done < step; ++done) loop.step_done(0, done, 1, now);
    const TrainActions actions = fail(step);
    CHECK(actions.back().kind == TrainAction::restore);
    CHECK(actions.back().code == Errc::bad_data);
    CHECK(loop.restored({{0, 0}}, now).back().kind == TrainAction::start);
  }
  for (int64_t done = 0; done < 3; ++done) loop.step_done(0, done, 1, now);
  CHECK(fail(3).back().kind == TrainAction::fail);
  CHECK(loop.recoveries() == 2);
}

TEST_CASE("the ledger of a training has each push of each replica, by its end") {
  LocalFit fit(sgd(0.01), 3);
  fit.train({.rule = Aggregation::async, .steps = 7});
  const std::vector<PushCount> ledger = push_ledger(fit.session);
  REQUIRE(ledger.size() == 3);
  for (size_t i = 0; i < 3; ++i) {
    const PushCount& p = ledger[i];
    CHECK(p.replica == static_cast<int64_t>(i));
    CHECK(p.parameter == "w");
    CHECK(p.applied == 7);
    CHECK(p.received == p.applied + p.merged + p.late + p.duplicate + p.held);
  }
}

}  // namespace
}  // namespace troupe
