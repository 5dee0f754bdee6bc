// The initial values of a training: the current values of the parameters, or their initial ones.
#include <future>

#include "tests/support/fit.hpp"
#include "tests/support/engine/local_cluster.hpp"

namespace troupe {
namespace {

// Batches repeat after three steps, so six steps equal two times three.
std::string trained(int64_t n) { return troupe::trained(steps(n)).weights_sha256; }

TEST_CASE("a training goes on with what the one before has left, or begins anew") {
  LocalFit fit;
  CHECK(fit.train(steps(3)).weights_sha256 == trained(3));
  CHECK(fit.train(steps(3)).weights_sha256 == trained(6));
  TrainOptions options{.steps = 3, .anew = true};
  CHECK(fit.train(options).weights_sha256 == trained(3));
}

TEST_CASE("a training goes on with what updates of the program's own have left") {
  Fit fit(sgd(0.01), 1);
  Fit once(sgd(0.01), 1);
  Session session = Session::local(fit.graph), other = Session::local(once.graph);
  const std::vector<Tensor> batch = fit.all[0].batch(0);
  for (int i = 0; i < 3; ++i) session.run({fit.all[0].update}, {{fit.all[0].feeds[0], batch[0]}});
  for (Fit* f : {&fit, &once}) f->all[0].batch = [batch](int64_t) { return batch; };
  CHECK(train(session, fit.all, steps(4)).weights_sha256 ==
        train(other, once.all, steps(7)).weights_sha256);
}

TEST_CASE("a training goes on with parameters that were loaded") {
  Folder folder("train-again");
  {
    LocalFit fit;
    TrainOptions options{.steps = 3, .checkpoint_dir = folder.path()};
    fit.train(options);
  }
  for (const bool anew : {false, true}) {
    LocalFit fit;
    load_parameters(fit.session, folder.path());
    TrainOptions options{.steps = 3, .anew = anew};
    CHECK(fit.train(options).weights_sha256 == trained(anew ? 3 : 6));
  }
}

TEST_CASE("shards that are lost get back what a training without checkpoints began with") {
  LocalCluster cluster({"/job:ps/task:0", "/job:worker/task:0"});
  Fit fit;
  Session session = cluster.connect(fit.graph);
  train(session, fit.all, steps(3));
  TrainOptions options{.steps = 3, .pause_every = 2};
  bool killed = false;
  options.on_pause = [&](const TrainPause&) {
    if (!std::exchange(killed, true)) {
      cluster.process(0).stop();
      cluster.restart(0);
    }
    parameter_values(session);
    return true;
  };
  CHECK(train(session, fit.all, options).weights_sha256 == trained(6));
  CHECK(killed);
}

TEST_CASE("a training says so where the values that it was to begin with are gone") {
  LocalCluster cluster({"/job:ps/task:0", "/job:worker/task:0"});
  Fit fit;
  Session session = cluster.connect(fit.graph);
  train(session, fit.all, steps(3));
  cluster.process(0).stop();
  cluster.restart(0);
  std::string told;
  TrainOptions options = steps(3);
  options.on_event = [&](const TrainEvent& event) {
    if (event.kind == TrainEvent::warning) told += event.text;
  };
  CHECK(train(session, fit.all, options).weights_sha256 == trained(3));
  has(told, "the values that the parameters had are gone, and training begins with their first");
}

TEST_CASE("one session is trained by one training at a time") {
  LocalFit fit;
  TrainOptions options = steps(3);
  Refusal refused;
  options.on_progress = [&](const TrainProgress& p) {
    if (p.step == 1) refused = refusal_of([&] { fit.train(steps(1)); });
  };
  CHECK(fit.train(options).weights_sha256 == trained(3));
  CHECK(refused.code == Errc::invalid_argument);
  has(refused.text, "this session is being trained already");
  fit.train(steps(1));
}

TEST_CASE("a run that pushes gradients does not take the place of a step of the training") {
  LocalFit fit(sgd(0.01), 1), alone(sgd(0.01), 1);
  const Tower& tower = fit.all[0];
  const auto run = [&](Output y) {
    Feeds feeds;
    const std::vector<Tensor> values = tower.batch(1);
    for (size_t i = 0; i < values.size(); ++i) feeds.emplace_back(tower.feeds[i], values[i]);
    fit.session.run({y}, feeds);
  };
  TrainOptions options = steps(3);
  Refusal refused;
  options.pause_every = 1;
  options.on_pause = [&](const TrainPause& p) {
    if (p.step == 1) refused = refusal_of([&] { run(tower.update); });
    run(tower.loss);
    return true;
  };
  CHECK(fit.train(options).weights_sha256 == alone.train(steps(3)).weights_sha256);
  CHECK(refused.code == Errc::invalid_argument);
  has(refused.text, "it would take the place of a step of the training");
  run(tower.update);
}

TEST_CASE("a step that shards refuse does not move the session's count") {
  Fit fit(sgd(0.01), 1);
  Session session = Session::local(fit.graph);
  const Output y = fit.all[0].update;
  const Feeds feeds = {{fit.all[0].feeds[0], fit.all[0].batch(0)[0]}};
  const auto run = [&](int64_t step) { session.run({y}, feeds, {.step = step}); };
  CHECK(refusal_of([&] { run(1000); }).code == Errc::stale);
  session.run({y}, feeds);
  run(1);
  session.run({y}, feeds);
  run(3);
  CHECK(refusal_of([&] { run(2); }).code == Errc::stale);
}

TEST_CASE("a checkpoint's file is no folder of checkpoints") {
  Folder folder("train-again-file");
  LocalFit fit;
  TrainOptions options{.steps = 1, .checkpoint_dir = folder.path()};
  const std::string file = fit.train(options).checkpoint;
  check_invalid([&] { load_parameters(fit.session, file); },
                file + " is a file; give the folder of checkpoints, as " + folder.path());
}

TEST_CASE("a program that follows another goes on where its own replicas are") {
  LocalCluster cluster({"/job:ps/task:0"});
  Fit ours, theirs;
  ConnectOptions shared;
  shared.container = "together";
  shared.replicas = 2;
  Session owner = cluster.connect(ours.graph, {}, shared);
  owner.prepare({ours.all[0].loss, ours.all[0].update}, ours.all[0].feeds);
  Session follower = cluster.connect(theirs.graph, {}, shared);
  const std::vector<Tower> led(1, ours.all[0]), followed(1, theirs.all[1]);
  std::promise<void> let_go;
  std::vector<Tower> slow = led;  // it stays at its third step until the other program is done
  slow[0].batch = [batch = led[0].batch, go = let_go.get_future().share()](int64_t step) {
    if (step == 2) go.wait_for(std::chrono::seconds(60));
    return batch(step);
  };
  TrainOptions options{.rule = Aggregation::async, .steps = 4};
  auto leading = std::async(std::launch::async, [&] { return train(owner, slow, options); });
  TrainOptions following = options;
  following.patience = std::chrono::seconds(5);
  following.steps = 100;
  CHECK(train(follower, followed, following).steps == 100);
  following.steps = 150;
  const TrainResult again = train(follower, followed, following);
  CHECK(again.resumed_at == 100);
  CHECK(again.steps == 150);
  let_go.set_value();
  CHECK(leading.get().steps == 4);
}

}  // namespace
}  // namespace troupe
