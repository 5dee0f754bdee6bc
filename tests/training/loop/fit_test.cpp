// fit() and evaluate(): data epochs, scores, callbacks, early stopping, the best model, resuming,
// and processes that die in the course of a training.

#include <fstream>

#include "tests/support/fit.hpp"
#include "tests/support/fit_epochs.hpp"
#include "tests/support/engine/local_cluster.hpp"
#include "tests/support/two_classes.hpp"
#include "training/loop/fit_history.hpp"

namespace troupe {
namespace {

// Calls `f` after each batch that the metric counts.
void after_each_batch(Metric& metric, std::function<void()> f) {
  metric.begin = [begin = metric.begin, f = std::move(f)] {
    Metric::Tally tally = begin();
    tally.add = [add = tally.add, f](const auto& values, const Batch& batch) {
      add(values, batch);
      f();
    };
    return tally;
  };
}

TEST_CASE("evaluate counts each record once, whatever the size of its batches") {
  TwoClasses net;
  Session session = Session::local(net.graph);
  Evaluation one = net.evaluation;
  const Scores scores = evaluate(session, one, net.held_out);
  CHECK(scores.size() == 2);
  for (const int64_t size : {1, 40, 1000}) {
    one.batch_size = size;
    const Scores same = evaluate(session, one, net.held_out);
    CHECK(same.at("accuracy") == scores.at("accuracy"));
    CHECK(same.at("loss") == doctest::Approx(scores.at("loss")).epsilon(1e-6));
  }
  CHECK_THROWS_WITH_AS(evaluate(session, one, {}), "evaluate: was given no records", Error);
  Dataset bare;
  bare.features = net.held_out.features;
  CHECK_THROWS_WITH_AS(evaluate(session, one, bare),
                       doctest::Contains("wants a data set with a label for each record, got "),
                       Error);
}

TEST_CASE("fit trains for its epochs, tells of each, and learns") {
  TwoClasses net;
  Session session = Session::local(net.graph, {.threads = 2});
  FitOptions options = net.options(30);
  int64_t told_steps = 0;
  std::vector<FitEpoch> told;
  options.on_step = [&](const TrainProgress& p) { told_steps = p.step; };
  options.on_epoch = [&](const FitEpoch& e) {
    CHECK(e.step == told_steps);
    told.push_back(e);
    const Scores now = evaluate(session, net.evaluation, net.held_out);
    CHECK(now == e.scores);
    return true;
  };
  const FitResult result = fit(session, net.all, net.data, options);
  CHECK(result.training.steps == 150);  // 90 records are 5 batches of 2 * 10, the last one short
  check_same(result.history, told);
  REQUIRE(told.size() == 30);
  CHECK(told[4].step == 25);
  CHECK(told[29].loss < 0.5 * told[0].loss);
  CHECK(told[29].scores.at("accuracy") >= 0.95);
  CHECK(!result.stopped);
  CHECK(result.best_epoch > 0);
  CHECK(result.best_checkpoint.empty());
}

TEST_CASE("rounds of local steps fit into epochs, or the training is refused") {
  TwoClasses net;
  Session session = Session::local(net.graph);
  FitOptions options = net.options(4);
  options.train.rule = aggregation_from_string("local:2");
  check_invalid([&] { fit(session, net.all, net.data, options); },
                "an epoch has 5 steps, and a round of the rule local:2 has 2");
  options.train.rule = aggregation_from_string("local:5");
  CHECK(fit(session, net.all, net.data, options).history.size() == 4);
  options.train.rule.reset();
  options.on_epoch = [&](const FitEpoch&) {
    set_rule(session, aggregation_from_string("local:2"));
    return true;
  };
  check_invalid([&] { fit(session, net.all, net.data, options); }, "ended within a round");
}

TEST_CASE("fit is train() with batches of the data, to the bit") {
  TwoClasses net, other;
  Session session = Session::local(net.graph), plain = Session::local(other.graph);
  const FitResult result = fit(session, net.all, net.data, net.options(3));
  const Batches batches(other.data, {.batch_size = 10, .replicas = 2, .seed = 5});
  for (Tower& tower : other.all)
    tower.batch = [&batches, replica = tower.replica](int64_t step) {
      const Batch b = batches.at(step, replica);
      return std::vector<Tensor>{b.features, b.labels};
    };
  CHECK(train(plain, other.all, steps(15)).weights_sha256 == result.training.weights_sha256);
  const Scores scores = evaluate(plain, other.evaluation, other.held_out);
  CHECK(scores == result.history.back().scores);
}

TEST_CASE("training stops when so many epochs have brought no improvement") {
  TwoClasses net;
  Session session = Session::local(net.graph);
  FitOptions options = net.options(20);
  options.stop_after = 3;
  options.evaluation.metrics = {scripted({0.5, 0.7, 0.6, 0.70001, 0.6, 0.9})};
  SUBCASE("at all") {
    options.epochs = 6;
    const FitResult result = fit(session, net.all, net.data, options);
    CHECK(result.history.size() == 6);
    CHECK(result.best_epoch == 6);
    CHECK(!result.stopped);
  }
  SUBCASE("that counts") {
    options.min_improvement = 0.01;
    const FitResult result = fit(session, net.all, net.data, options);
    CHECK(result.history.size() == 5);
    CHECK(result.best_epoch == 2);
    CHECK(result.stopped);
    CHECK(result.training.steps == 25);
  }
  SUBCASE("where less is better, and NaN is nothing") {
    options.evaluation.metrics = {scripted({NAN, 3, 2, 2.5, NAN, 4}, false)};
    const FitResult result = fit(session, net.all, net.data, options);
    CHECK(result.best_epoch == 3);
    CHECK(result.history.size() == 6);
    CHECK(!result.history[0].is_best);
    CHECK(result.history[1].is_best);
  }
}

TEST_CASE("on_epoch may end a training") {
  TwoClasses net;
  Session session = Session::local(net.graph);
  FitOptions options = net.options(20);
  options.validation = {};
  options.on_epoch = [](const FitEpoch& e) { return e.epoch < 4; };
  const FitResult result = fit(session, net.all, net.data, options);
  CHECK(result.stopped);
  CHECK(result.training.steps == 20);
  CHECK(result.history.size() == 4);
  CHECK(result.best_epoch == 0);
}

TEST_CASE("the best epoch's checkpoint is kept, and its parameters are returned") {
  TwoClasses net;
  Folder folder("fit-best");
  Session session = Session::local(net.graph);
  FitOptions options = net.options(5);
  options.evaluation.metrics = {scripted({0.5, 0.7, 0.9, 0.8, 0.6}), accuracy()};
  options.watch = "scripted";
  options.return_best = true;
  options.train.checkpoint_dir = folder.path();
  options.train.checkpoint_keep = 1;
  std::map<std::string, Tensor> best;
  options.on_epoch = [&](const FitEpoch& e) {
    if (e.is_best) best = parameter_values(session);
    return true;
  };
  const FitResult result = fit(session, net.all, net.data, options);
  CHECK(result.best_epoch == 3);
  CHECK(result.best_checkpoint == folder.path() + "/best");
  CHECK(folder.manifests() == 1);
  size_t kept = 0;
  for (const auto& entry : std::filesystem::directory_iterator(result.best_checkpoint))
    if (entry.path().string().ends_with(".manifest.json")) {
      ++kept;
      CHECK(entry.path().string().find("-step15.") != std::string::npos);
    }
  CHECK(kept == 1);
  const auto values = parameter_values(session);
  REQUIRE(values.size() == best.size());
  for (const auto& [name, value] : best) CHECK(same_bits(values.at(name), value));
}

TEST_CASE("a resumed fit knows its history, and ends as if it had never been interrupted" *
          doctest::test_suite("slow")) {
  Folder folder("fit-resume"), other("fit-whole");
  const auto run = [](const Folder& where, int64_t epochs, bool resume, int64_t stop_after = 0) {
    TwoClasses net;
    Session session = Session::local(net.graph, {.threads = 2});
    FitOptions options = net.options(epochs);
    options.keep_best = true;
    options.stop_after = stop_after;
    options.train.checkpoint_dir = where.path();
    options.train.resume = resume;
    return fit(session, net.all, net.data, options);
  };
  const FitResult whole = run(other, 7, false);
  CHECK(run(folder, 3, false).history.size() == 3);
  const FitResult resumed = run(folder, 7, true);
  CHECK(resumed.training.resumed_at == 15);
  CHECK(resumed.training.weights_sha256 == whole.training.weights_sha256);
  CHECK(resumed.best_epoch == whole.best_epoch);
  check_same(resumed.history, whole.history);
  SUBCASE("one that was to stop does no more") {
    const FitResult stopped = run(folder, 50, true, 7 - whole.best_epoch + 1);
    const FitResult again = run(folder, 50, true, 7 - whole.best_epoch + 1);
    CHECK(stopped.stopped);
    CHECK(again.stopped);
    CHECK(again.training.steps == stopped.training.steps);
    CHECK(again.training.weights_sha256 == stopped.training.weights_sha256);
    check_same(again.history, stopped.history);
  }
  SUBCASE("a damaged history is an error with its line") {
    std::ofstream(folder.path() + "/epochs.txt", std::ios::app) << "epoch 8 stop 9\n";
    check_error(
        Errc::bad_data, [&] { run(folder, 9, true); },
        "epochs.txt:10: ", "remove the file to go on without the epochs before");
  }
}

// Trains on a cluster whose members `kill` may kill, and compares the result with one process.
void check_killed(const std::function<void(LocalCluster&, FitOptions&)>& kill) {
  const auto options_of = [](TwoClasses& net, const Folder& folder) {
    FitOptions options = net.options(4);
    options.keep_best = true;
    options.train.checkpoint_dir = folder.path();
    options.train.checkpoint_every = 3;
    return options;
  };
  Folder quiet("fit-quiet"), disturbed("fit-killed");
  TwoClasses alone(adam(0.02), 2), net(adam(0.02), 2, "/job:worker/task:0");
  Session local = Session::local(alone.graph);
  const FitResult expected = fit(local, alone.all, alone.data, options_of(alone, quiet));
  LocalCluster cluster({"/job:ps/task:0", "/job:worker/task:0"});
  Session session = cluster.connect(net.graph);
  FitOptions options = options_of(net, disturbed);
  kill(cluster, options);
  const FitResult result = fit(session, net.all, net.data, options);
  CHECK(result.training.weights_sha256 == expected.training.weights_sha256);
  CHECK(result.best_epoch == expected.best_epoch);
  check_same(result.history, expected.history);
}

TEST_CASE("fit survives a killed worker and a killed ps with the same bits, scores and epochs" *
          doctest::test_suite("slow")) {
  const auto once = std::make_shared<bool>(false);
  const auto kill = [once](LocalCluster& cluster, size_t member) {
    if (std::exchange(*once, true)) return;
    cluster.process(member).stop();
    cluster.restart(member);
  };
  SUBCASE("a worker, between steps") {
    check_killed([&](LocalCluster& cluster, FitOptions& o) {
      o.on_step = [&, kill](const TrainProgress& p) {
        if (p.step == 7) kill(cluster, 1);
      };
    });
  }
  SUBCASE("a worker, in an evaluation") {
    check_killed([&](LocalCluster& cluster, FitOptions& o) {
      after_each_batch(o.evaluation.metrics[0], [&, kill, n = std::make_shared<int>(0)] {
        if (++*n == 4) kill(cluster, 1);  // each evaluation has three batches
      });
    });
  }
  SUBCASE("a ps, in an evaluation") {
    check_killed([&](LocalCluster& cluster, FitOptions& o) {
      after_each_batch(o.evaluation.metrics[0], [&, kill, n = std::make_shared<int>(0)] {
        if (++*n == 5) kill(cluster, 0);
      });
    });
  }
  SUBCASE("a ps, between steps") {
    check_killed([&](LocalCluster& cluster, FitOptions& o) {
      o.on_step = [&, kill](const TrainProgress& p) {
        if (p.step == 12) kill(cluster, 0);
      };
    });
  }
  CHECK(*once);
}

TEST_CASE(
    "epochs that are done again after a rollback are told as they were, and the best is kept") {
  const auto add = [](FitHistory& history, int64_t epoch, double score) {
    FitEpoch e{.epoch = epoch, .step = 10 * epoch, .scores = {{"a", score}}};
    history.add(e);
    return e.is_best;
  };
  FitHistory history({.watch = "a"});
  CHECK(add(history, 1, 0.5));
  CHECK(add(history, 2, 0.6));
  CHECK(add(history, 3, 0.9));
  // Back to the end of data epoch 1. The same values return under the synchronous rule:
  CHECK(add(history, 2, 0.6));
  CHECK(!history.improves(0.9));
  CHECK(add(history, 3, 0.9));
  // Under the asynchronous rule the values may differ; the best, 0.9, stays.
  CHECK(add(history, 2, 0.7));
  CHECK(!history.improves(0.8));
  CHECK(add(history, 3, 0.8));
  CHECK(!add(history, 4, 0.75));
  CHECK(history.best() == FitHistory::Best{3, 30, 0.9});
  CHECK(history.epochs().size() == 4);
  CHECK(history.improves(0.95));
}

TEST_CASE("towers with batches of their own say how long an epoch is") {
  Fit weight;  // two towers that train one weight
  Session session = Session::local(weight.graph);
  FitOptions options{.epochs = 2};
  CHECK_THROWS_WITH_AS(fit(session, weight.all, {}, options),
                       doctest::Contains("want FitOptions::steps_per_epoch"), Error);
  options.steps_per_epoch = 4;
  const FitResult result = fit(session, weight.all, {}, options);
  CHECK(result.training.steps == 8);
  CHECK(result.history.size() == 2);
}

TEST_CASE("options that do not fit together are refused before training") {
  TwoClasses net;
  Session session = Session::local(net.graph);
  FitOptions o = net.options(1);
  const auto refused = [&](const char* text) {
    check_invalid([&] { fit(session, net.all, net.data, o); }, text);
  };
  SUBCASE("no towers") {
    net.all.clear();
    refused("was given no towers");
  }
  SUBCASE("no epochs") {
    o.epochs = 0;
    refused("FitOptions::epochs is 0");
  }
  SUBCASE("numbers that say nothing") {
    o.stop_after = -1;
    refused("fit: FitOptions::stop_after is -1; wants 0 (never) or more epochs");
    o.stop_after = 0;
    o.steps_per_epoch = -2;
    refused("fit: FitOptions::steps_per_epoch is -2; wants 0 (as many as the data has batches)");
    o.steps_per_epoch = 0;
    o.batch_size = 0;
    refused("fit: FitOptions::batch_size is 0; wants at least 1 record");
    o.batch_size = 1;
    o.min_improvement = -0.5;
    refused("fit: FitOptions::min_improvement is -0.5; wants 0 or more of the metric");
  }
  SUBCASE("no metric of that name") {
    o.watch = "aucc";
    refused("there is no metric \"aucc\" to watch; there are accuracy, loss");
  }
  SUBCASE("nothing to judge by") {
    o.validation = {};
    o.stop_after = 2;
    refused("give FitOptions::validation");
  }
  SUBCASE("nowhere to keep the best") {
    o.keep_best = true;
    refused("the best epoch is kept in checkpoint_dir");
  }
  SUBCASE("its own callbacks") {
    o.train.on_progress = [](const TrainProgress&) {};
    refused("use on_step and on_epoch");
  }
  SUBCASE("one name twice") {
    o.evaluation.metrics.push_back(accuracy());
    refused("two metrics are called \"accuracy\"");
  }
  SUBCASE("no metrics") {
    o.evaluation.metrics.clear();
    refused("something to fetch, and metrics of it");
  }
  SUBCASE("replicas with gaps") {
    net.all.erase(net.all.begin());
    refused("tower 0 has replica 1; replicas count from 0, in order");
  }
  SUBCASE("some batches") {
    net.all[1].batch = [](int64_t) { return std::vector<Tensor>{}; };
    refused("replica 1 has batches of its own, others have not");
  }
  SUBCASE("too many feeds") {
    net.all[0].feeds.push_back(net.all[0].feeds[0]);
    refused("the feeds of replica 0 are features, and labels if there is a second one; got 3");
  }
}

}  // namespace
}  // namespace troupe
