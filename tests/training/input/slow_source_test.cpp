// Trainings and evaluations whose sources are slow, hang, end early or are asked too late.
#include <algorithm>
#include <atomic>
#include <future>
#include <thread>

#include "actors/master/session_state.hpp"
#include "tests/support/engine/local_cluster.hpp"
#include "tests/support/refusal.hpp"
#include "tests/training/input/classifier.hpp"
#include "troupe/metrics.hpp"

namespace troupe {
namespace {

// A filter that calls this function for each record.
std::shared_ptr<const Registry> with_filter(std::function<bool()> call) {
  return ops_with({}, {{"filtered", [call](const Fields&, const SourceArgs&) {
                          return SourceStep{.keep = [call](const SourceCall&) { return call(); }};
                        }}});
}

// A filter's function that waits to be let go on.
struct Held {
  std::atomic<bool> inside = false, go_on = false;
  static std::shared_ptr<const Registry> ops(const std::shared_ptr<Held>& held) {
    return with_filter([held] {
      held->inside = true;
      while (!held->go_on) std::this_thread::yield();
      return true;
    });
  }
};

TEST_CASE("a source that needs longer than patience for a step does not end the training") {
  const PixelFiles files;
  std::atomic<int> told = 0;
  // Drops all records until the training has said twice that it still waits.
  const auto ops = with_filter([&] { return told >= 2; });
  const Source source = files.source().repeat(int64_t{1} << 40).filter("filtered").batch(4);
  TrainOptions options;
  options.steps = 2;
  options.patience = std::chrono::milliseconds(200);
  options.on_event = [&](const TrainEvent& event) {
    told += event.text.find("a source is read up to a step's records") != std::string::npos;
  };
  {
    Classifier model(1, &source, ops);
    Session session = Session::local(model.graph);
    CHECK(train(session, model.towers, options).steps == 2);
  }
  told = 0;
  LocalCluster cluster({"/job:ps/task:0", "/job:worker/task:0"}, 1, ops);
  Classifier model(1, &source, ops, {"/job:worker/task:0"});
  Session session = cluster.connect(model.graph);
  CHECK(train(session, model.towers, options).steps == 2);
  CHECK(told >= 2);
}

TEST_CASE("a source that does not move ends the training when patience does") {
  const PixelFiles files;
  const auto held = std::make_shared<Held>();
  const Source source = files.source().filter("filtered").batch(4);
  Classifier model(1, &source, Held::ops(held));
  Session session = Session::local(model.graph);
  TrainOptions options;
  options.steps = 2;
  options.patience = std::chrono::milliseconds(200);
  has(error_text(Errc::timeout, [&] { train(session, model.towers, options); }),
      "no progress for 200 ms");
  held->go_on = true;
}

TEST_CASE("a training whose data end early says so") {
  const PixelFiles files;
  const Source source = files.batches().repeat(1);
  Classifier model(1, &source);
  Session session = Session::local(model.graph);
  TrainOptions options;
  options.steps = 100;
  std::vector<std::string> told;
  options.on_event = [&](const TrainEvent& event) {
    if (event.kind == TrainEvent::warning) told.push_back(event.text);
  };
  CHECK(train(session, model.towers, options).steps == 12);
  CHECK(told ==
        std::vector<std::string>{"the data end before step 12 of 100, and training ends there"});
}

TEST_CASE("a read of a session that has ended is cancelled, and makes no source") {
  const PixelFiles files;
  const Source source = files.batches();
  Classifier model(1, &source);
  Session session = Session::local(model.graph);
  ProcessServices& services = session.state().process->services();
  InputPort* const port = services.input(77);
  const auto text = std::make_shared<const std::string>(source.to_text());
  const auto read = [&] {
    std::promise<Errc> code;
    port->read({.source = text, .seen = std::make_shared<const std::string>()},
               [&](Errc c, std::string, std::vector<Tensor>) { code.set_value(c); });
    return code.get_future().get();
  };
  CHECK(read() == Errc::ok);
  services.forget(77);
  CHECK(read() == Errc::cancelled);
}

Evaluation counting(const Classifier& model) {
  return {.feeds = model.batches[0],
          .fetches = {argmax(model.answers[0], -1)},
          .metrics = {metric(
              "count", int64_t{0},
              [](int64_t& n, const auto&, const Batch& batch) {
                n += static_cast<int64_t>(batch.records.size());
              },
              [](int64_t n) { return n; })}};
}

TEST_CASE("evaluate() wants batches of one epoch") {
  const PixelFiles files;
  Classifier model(1, nullptr);
  Session session = Session::local(model.graph);
  const auto text = [&](const Source& source) {
    return error_text(Errc::invalid_argument, [&] { evaluate(session, counting(model), source); });
  };
  has(text(files.source()), "evaluate: the source does not end with batches");
  has(text(files.batches().repeat(3)), "evaluate: the source ends with repeat(3)");
  CHECK(evaluate(session, counting(model), files.batches()).at("count") == kRecords);
}

TEST_CASE("fit makes the records of a validation source with cache() once") {
  const PixelFiles files;
  std::atomic<int> calls = 0;
  std::atomic<bool> trains = false;
  // Fit looks at the first batch before it trains. The last record, which is made ahead, comes
  // later than that.
  const auto ops = with_filter([&] {
    while (calls == 8 && !trains) std::this_thread::yield();
    return ++calls > 0;
  });
  const Source source = files.batches(),
               held = files.source().take(9).filter("filtered").cache().batch(4);
  Classifier model(1, &source, ops);
  Session session = Session::local(model.graph);
  FitOptions options;
  options.epochs = 3;
  options.validation_source = held;
  options.evaluation = counting(model);
  options.on_step = [&](const TrainProgress&) { trains = true; };
  const FitResult result = fit(session, model.towers, source, options);
  CHECK(result.history.back().scores.at("count") == 9);
  CHECK(calls.load() == 9);
}

TEST_CASE("an evaluation that waits for its source can be cancelled") {
  const PixelFiles files;
  const auto held = std::make_shared<Held>();
  Classifier model(1, nullptr, Held::ops(held));
  Session session = Session::local(model.graph);
  Cancellation cancel;
  RunOptions run;
  run.cancel = &cancel;
  std::thread other([&] {
    while (!held->inside) std::this_thread::yield();
    cancel.cancel();
  });
  const Source source = files.source().filter("filtered").batch(4);
  CHECK(code_of([&] { evaluate(session, counting(model), source, run); }) == Errc::cancelled);
  other.join();
  held->go_on = true;
}

TEST_CASE("fit() of a source refuses options that the source decides") {
  const PixelFiles files;
  const Source source = files.batches();
  Classifier model(1, &source);
  Session session = Session::local(model.graph);
  const auto text = [&](const FitOptions& options) {
    return error_text(Errc::invalid_argument, [&] { fit(session, model.towers, source, options); });
  };
  FitOptions options;
  options.batch_size = 8;
  has(text(options), "FitOptions::batch_size is 8, and the source has batches of 4");
  options = {};
  options.shuffle = false;
  has(text(options), "FitOptions::shuffle is of a data set");
}

}  // namespace
}  // namespace troupe
