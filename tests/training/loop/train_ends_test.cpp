// Trainings that end from outside: the session is closed, or a process is lost before or after the
// steps.

#include <atomic>
#include <future>
#include <thread>

#include "tests/support/fit.hpp"
#include "tests/support/engine/local_cluster.hpp"

namespace troupe {
namespace {

// The error of a training on its own thread after `session` is closed as soon as `ready`.
Errc closed_while_training(Session& session, const Fit& fit, TrainOptions options,
                           const std::atomic<bool>& ready) {
  Errc code = Errc::ok;
  std::atomic<bool> ended{false};
  std::thread trainer([&] {
    code = code_of([&] { train(session, fit.all, options); });
    ended = true;
  });
  while (!ready && !ended) std::this_thread::yield();
  session.close();
  trainer.join();
  return code;
}

TEST_CASE("closing a session ends its training, and waits for it") {
  Fit fit;
  std::atomic<bool> ready{false};
  TrainOptions options = steps(1'000'000'000);
  SUBCASE("between steps") {
    options.on_progress = [&](const TrainProgress& p) { ready = p.step > 20; };
  }
  SUBCASE("while checkpoints are taken") {
    options.checkpoint_every = 1;
    options.on_progress = [&](const TrainProgress& p) { ready = p.step > 5; };
  }
  Folder folder("train-closed");
  if (options.checkpoint_every > 0) options.checkpoint_dir = folder.path();
  Session session = Session::local(fit.graph, {.threads = 2});
  CHECK(closed_while_training(session, fit, options, ready) == Errc::cancelled);
  CHECK_THROWS_AS(train(session, fit.all, steps(1)), Error);
  CHECK_THROWS_AS(parameter_values(session), Error);
  CHECK_THROWS_AS(parameter_slices(session), Error);
}

TEST_CASE("closing a session ends its training while it waits for another session's push") {
  LocalCluster cluster({"/job:ps/task:0"});
  Fit fit(sgd(0.01), 1);
  ConnectOptions shared;
  shared.container = "shared";
  shared.replicas = 2;  // replica 1 belongs to a session that never joins
  std::atomic<bool> ready{false};
  std::atomic<int64_t> last_step{-1};
  fit.all[0].batch = [&, batch = fit.all[0].batch](int64_t step) {
    last_step = step;
    ready = true;
    return batch(step);
  };
  Session session = cluster.connect(fit.graph, {}, shared);
  CHECK(closed_while_training(session, fit, steps(9), ready) == Errc::cancelled);
  CHECK(last_step == 0);
}

TEST_CASE("a session is not closed by a callback of its own training, which goes on") {
  LocalFit fit;
  TrainOptions options = steps(3);
  std::string refused;
  options.on_progress = [&](const TrainProgress&) {
    refused = refusal_of([&] { fit.session.close(); }).text;
  };
  CHECK(fit.train(options).steps == 3);
  has(refused, "from within one of its own calls");
}

TEST_CASE("whoever asks for parameters while the session is closed is not left waiting") {
  for (int round = 0; round < 20; ++round) {
    LocalFit fit;
    fit.train(steps(1));
    std::atomic<int> asked{0};
    std::thread asker([&] {
      CHECK(code_of([&] {
              for (;; ++asked)
                asked % 2 ? (void)parameter_values(fit.session)
                          : (void)parameter_slices(fit.session);
            }) == Errc::cancelled);
    });
    while (asked < round) std::this_thread::yield();
    fit.session.close();
    asker.join();
  }
}

TEST_CASE("parameters that were lost after a training are loaded when their process is back") {
  Folder folder("train-load-again");
  LocalCluster cluster({"/job:ps/task:0", "/job:worker/task:0"});
  Fit fit(adam());
  std::promise<void> missed;
  std::atomic<bool> told{false};
  Session session = cluster.connect(fit.graph, [&](LogLevel, const std::string& line) {
    if (line.find("parameters not loaded yet") != line.npos && !told.exchange(true))
      missed.set_value();
  });
  TrainOptions options{.steps = 6, .checkpoint_dir = folder.path()};
  train(session, fit.all, options);
  const double value = parameter_values(session).at("w").item<double>();
  cluster.process(0).stop();
  CHECK_THROWS_AS(parameter_values(session), Error);
  CHECK_THROWS_AS(load_parameters(session, folder.path()), Error);
  auto loading = std::async(std::launch::async, [&] {
    load_parameters(session, folder.path(), std::chrono::seconds(60));
  });
  missed.get_future().wait();
  cluster.restart(0);
  loading.get();
  CHECK(parameter_values(session).at("w").item<double>() == value);
}

TEST_CASE("what is thrown while a lost process is waited for ends the training") {
  LocalCluster cluster({"/job:ps/task:0", "/job:worker/task:0"});
  Fit fit;
  Session session = cluster.connect(fit.graph);
  train(session, fit.all, steps(1));
  cluster.process(0).stop();
  TrainOptions options = steps(2);
  int told = 0;
  options.on_event = [&](const TrainEvent& event) {
    if (event.kind != TrainEvent::recovering) return;
    ++told;
    throw Stranger{7};
  };
  CHECK_THROWS_AS(train(session, fit.all, options), Stranger);
  CHECK(told == 1);
}

}  // namespace
}  // namespace troupe
