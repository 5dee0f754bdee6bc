// Trainings that read sources where their towers run.
#include <condition_variable>
#include <atomic>
#include <future>
#include <mutex>

#include "actors/master/session_state.hpp"
#include "tests/support/engine/local_cluster.hpp"
#include "tests/support/fit.hpp"
#include "tests/training/input/classifier.hpp"
#include "training/input/input_service.hpp"
#include "troupe/metrics.hpp"
#include "troupe/data.hpp"

namespace troupe {
namespace {

std::string trained(const Source& source, int replicas, TrainOptions options = {}) {
  Classifier model(replicas, &source);
  Session session = Session::local(model.graph, {.threads = 2});
  return train(session, model.towers, options).weights_sha256;
}

TEST_CASE("a training that reads a source has the weights of one that is fed its batches") {
  const PixelFiles files;
  const Source source = files.batches();
  Classifier fed(2, nullptr);
  std::vector<std::vector<Record>> steps(2);
  for (int64_t epoch = 0; epoch < 3; ++epoch) {
    auto records = source.records(epoch);
    // 12 batches in an epoch: 11 of four records and one of two, so six steps.
    for (int64_t i = 0; const auto record = records.next(); ++i) steps[i % 2].push_back(*record);
  }
  for (Tower& tower : fed.towers)
    tower.batch = [&steps, r = tower.replica](int64_t step) { return steps[r].at(step); };
  Session session = Session::local(fed.graph, {.threads = 2});
  TrainOptions options;
  options.steps = 18;
  const std::string wanted = train(session, fed.towers, options).weights_sha256;
  CHECK(trained(source, 2, options) == wanted);
  CHECK(trained(source.prefetch(3, 5), 2, options) == wanted);
  CHECK(trained(source.repeat(3), 2, {}) == wanted);  // steps 0: until the data end
  options.steps = 100;
  CHECK(trained(source.repeat(3), 2, options) == wanted);
}

TEST_CASE("a training whose data ends takes its last checkpoint, and ends at once when resumed") {
  const PixelFiles files;
  const Source source = files.batches().repeat(2);
  Folder folder("source-end");
  TrainOptions options;
  options.checkpoint_dir = folder.path();
  options.checkpoint_every = 5;
  Classifier model(1, &source);
  {
    Session session = Session::local(model.graph);
    const TrainResult result = train(session, model.towers, options);
    CHECK(result.steps == 24);
    has(result.checkpoint, "step24");
  }
  Session session = Session::local(model.graph);
  options.resume = true;
  const TrainResult again = train(session, model.towers, options);
  CHECK(again.resumed_at == 24);
  CHECK(again.steps == 24);
}

TEST_CASE("a training that is resumed with another source says so, and where they differ") {
  const PixelFiles files;
  Folder folder("source-other");
  std::vector<std::string> warnings;
  TrainOptions options;
  options.checkpoint_dir = folder.path();
  options.steps = 4;
  options.on_event = [&](const TrainEvent& e) {
    if (e.kind == TrainEvent::warning) warnings.push_back(e.text);
  };
  trained(files.batches(), 2, options);
  options.resume = true;
  options.steps = 6;
  trained(files.batches().repeat(9).prefetch(2), 2, options);
  CHECK(warnings.empty());
  options.steps = 8;
  trained(files.source().shuffle(kRecords, 6).batch(4), 2, options);
  REQUIRE(warnings.size() == 1);
  has(warnings[0], "another source, ...");
  has(warnings[0], "\"seed\":5");
  has(warnings[0], "\"seed\":6");
  options.steps = 10;
  trained(files.source().shuffle(kRecords, 6).batch(4), 1, options);
  REQUIRE(warnings.size() == 2);
  has(warnings[1], "2 replicas: {");
  has(warnings[1], "1 replica: {");
}

TEST_CASE("a training without a number of steps wants data that end") {
  Fit fit;
  Session session = Session::local(fit.graph);
  has(error_text(Errc::invalid_argument, [&] { train(session, fit.all, {}); }),
      "TrainOptions::steps is 0");
}

TEST_CASE("messages call a source by its file, whatever lists it takes") {
  const auto name = [](SourceArgs args) {
    return source_name(*Source::of("images", std::move(args)).spec());
  };
  const std::vector<std::string> classes = {"cat", "dog"};
  CHECK(name({{"classes", classes}, {"path", "train.tar"}}) == "images train.tar");
  CHECK(name({{"paths", classes}}) == "images cat");
  CHECK(name({}) == "images");
}

TEST_CASE("fit reads a source for training and one for validation") {
  const PixelFiles files;
  const Source source = files.batches(), held = files.source().take(9).batch(4);
  Classifier model(2, &source);
  Session session = Session::local(model.graph, {.threads = 2});
  FitOptions options;
  options.epochs = 30;
  options.validation_source = held;
  options.evaluation = {.feeds = model.batches[0],
                        .fetches = {argmax(model.answers[0], -1)},
                        .metrics = {metric(
                            "count", int64_t{0},
                            [](int64_t& n, const auto&, const Batch& batch) {
                              n += static_cast<int64_t>(batch.records.size());
                            },
                            [](int64_t n) { return n; })}};
  const FitResult result = fit(session, model.towers, source, options);
  CHECK(result.history.size() == 30);
  CHECK(result.history[0].step == 6);
  CHECK(result.history[0].scores.at("count") == 9);
  CHECK(result.history[29].loss < 0.7 * result.history[0].loss);
  CHECK(result.training.steps == 180);
}

TEST_CASE("a source for validation without a record is refused before the first step") {
  const PixelFiles files;
  const Source source = files.batches(), none = files.source().skip(1'000'000).batch(4);
  Classifier model(2, &source);
  Session session = Session::local(model.graph, {.threads = 2});
  FitOptions options;
  options.validation_source = none;
  options.evaluation = {.feeds = model.batches[0],
                        .fetches = {argmax(model.answers[0], -1)},
                        .metrics = {metric(
                            "count", int64_t{0}, [](int64_t& n, const auto&, const Batch&) { ++n; },
                            [](int64_t n) { return n; })}};
  int steps_seen = 0;
  options.on_step = [&](const TrainProgress&) { ++steps_seen; };
  const Refusal refused = refusal_of([&] { fit(session, model.towers, source, options); });
  CHECK(refused.code == Errc::bad_data);
  has(refused.text, "FitOptions::validation_source: the source has no records");
  CHECK(steps_seen == 0);
}

// The process's own number of threads reading, each step of a run on a cluster, one member killed
// on the way.
TEST_CASE("sources are read on the workers, and a killed worker changes no bit" *
          doctest::test_suite("slow")) {
  const PixelFiles files;
  const Source source = files.batches();
  TrainOptions options;
  options.steps = 40;
  const std::string wanted = trained(source, 2, options);
  LocalCluster cluster({"/job:ps/task:0", "/job:worker/task:0", "/job:worker/task:1"});
  Classifier model(2, &source, builtin_ops(), {"/job:worker/task:0", "/job:worker/task:1"});
  Session session = cluster.connect(model.graph);
  bool killed = false;
  options.on_progress = [&](const TrainProgress& p) {
    if (p.step < 20 || std::exchange(killed, true)) return;
    cluster.process(1).stop();
    cluster.restart(1);
  };
  CHECK(train(session, model.towers, options).weights_sha256 == wanted);
  CHECK(killed);
  for (const size_t worker : {1, 2}) CHECK(cluster.process(worker).services().actor("input"));
  CHECK(!session.state().process->services().actor("input"));
}

TEST_CASE("actors of sources that are killed are made anew, and no bit changes") {
  const PixelFiles files;
  const Source source = files.batches();
  TrainOptions options;
  options.steps = 60;
  const std::string wanted = trained(source, 2, options);
  Classifier model(2, &source);
  Session session = Session::local(model.graph, {.threads = 2});
  int kills = 0;
  options.on_progress = [&](const TrainProgress& p) {
    if (p.step % 7 != 3) return;
    ++kills;
    caf::anon_send_exit(session.state().process->services().actor("input"), caf::exit_reason::kill);
  };
  CHECK(train(session, model.towers, options).weights_sha256 == wanted);
  CHECK(kills >= 8);
}

TEST_CASE("a record that cannot be made ends the training with its place") {
  const PixelFiles files;
  const auto ops = ops_with({}, {{"fail", [](const Fields& fields, const SourceArgs&) {
                                    return SourceStep{.fields = fields,
                                                      .map = [](const SourceCall& call) -> Record {
                                                        if (call["label"].item<uint8_t>() == 1)
                                                          throw call.bad("the label is 1");
                                                        return call.record();
                                                      }};
                                  }}});
  const Source source = files.source().map("fail").batch(4);
  Classifier model(1, &source, ops);
  Session session = Session::local(model.graph);
  TrainOptions options;
  options.steps = 5;
  const std::string text =
      error_text(Errc::bad_data, [&] { train(session, model.towers, options); });
  has(text, "step 0 of replica 0: node tower0/ReadSource on ");
  has(text, files.images.path() + ": record ");
  has(text, "the label is 1");
}

TEST_CASE("a function of a source that does not return is named, and the session can be closed") {
  const PixelFiles files;
  std::mutex mutex;
  std::condition_variable released;
  bool go_on = false, inside = false;
  const auto ops =
      ops_with({}, {{"hang", [&](const Fields& fields, const SourceArgs&) {
                       return SourceStep{.fields = fields, .map = [&](const SourceCall& call) {
                                           std::unique_lock lock(mutex);
                                           inside = true;
                                           released.notify_all();
                                           released.wait(lock, [&] { return go_on; });
                                           return call.record();
                                         }};
                     }}});
  const Source source = files.source().map("hang").batch(4);
  Classifier model(1, &source, ops);
  Session session = Session::local(model.graph);
  Callable call = session.prepare({model.towers[0].loss, model.towers[0].update});
  std::promise<RunResult> ended;
  call.start({}, {}, [&](RunResult result) { ended.set_value(std::move(result)); });
  {
    std::unique_lock lock(mutex);
    released.wait(lock, [&] { return inside; });
  }
  const std::string waiting = session.state().process->services().waiting_for();
  has(waiting, "the source idx " + files.images.path() + " makes step 0, of a batch of 4 records");
  {
    std::lock_guard lock(mutex);
    go_on = true;
  }
  released.notify_all();
  CHECK(ended.get_future().get().code == Errc::ok);
}

TEST_CASE("a run that is no training step feeds a source's outputs, or gives the number") {
  const PixelFiles files;
  const Source source = files.source().batch(4);
  Classifier model(1, &source);
  Session session = Session::local(model.graph);
  has(error_text(Errc::invalid_argument, [&] { session.run({model.answers[0]}); }),
      "this run is no training step");
  const Record first = *source.records().next();
  CHECK(session.run({model.answers[0]}, {{model.batches[0][0], first[0]}})[0].dim(0) == 4);

  Graph graph;
  const Output number = placeholder(graph, DType::i64, {});
  const SourceBatch batch = read_source(graph, source.repeat(1), {.number = number});
  Session numbered = Session::local(graph);
  CHECK(same_bits(numbered.run({batch["image"]}, {{number, Tensor::scalar<int64_t>(0)}})[0],
                  first[0]));
  CHECK(numbered.run({batch["label"]}, {{number, Tensor::scalar<int64_t>(11)}})[0].dim(0) == 2);
  CHECK(code_of([&] {
          numbered.run({batch["image"]}, {{number, Tensor::scalar<int64_t>(12)}});
        }) == Errc::end_of_data);
  CHECK(code_of([&] {
          numbered.run({batch["image"]}, {{number, Tensor::scalar<int64_t>(-1)}});
        }) == Errc::invalid_argument);
}

TEST_CASE("a source is read for a replica that it has") {
  const PixelFiles files;
  Graph graph;
  const auto scope = graph.scope({.replica = 1});
  has(error_text(Errc::invalid_argument, [&] { read_source(graph, files.batches()); }),
      "is of replica 1, and 1 replicas read the source");
}

TEST_CASE("a training of a source without an end wants a number of steps") {
  const PixelFiles files;
  const Source source = files.batches();
  Classifier model(1, &source);
  Session session = Session::local(model.graph);
  has(error_text(Errc::invalid_argument, [&] { train(session, model.towers, {}); }),
      "until the data end, is for towers of a source that ends with repeat()");
}

TEST_CASE("fit() wants towers that read its source, for as many replicas as there are towers") {
  const PixelFiles files;
  const Source source = files.batches(), other = files.source().batch(5);
  Classifier model(2, &source);
  Session session = Session::local(model.graph);
  has(error_text(Errc::invalid_argument, [&] { fit(session, model.towers, other, {}); }),
      "replica 0 does not read the source that fit() was given");
  has(error_text(Errc::invalid_argument, [&] { fit(session, {model.towers[0]}, source, {}); }),
      "shares the source with 2 replicas, and there are 1 towers");
}

TEST_CASE("two nodes of a graph may read one source") {
  const PixelFiles files;
  const Source source = files.batches().repeat(1);
  Graph graph;
  const Output number = placeholder(graph, DType::i64, {});
  const SourceBatch a = read_source(graph, source, {.number = number}),
                    b = read_source(graph, source, {.number = number});
  Session session = Session::local(graph, {.threads = 2});
  for (const int64_t step : {0, 1, 7, 2}) {
    const auto values =
        session.run({a["image"], b["image"], b["label"]}, {{number, Tensor::scalar(step)}});
    CHECK(same_bits(values[0], values[1]));
  }
}

TEST_CASE("replicas share batches, and a source that ends otherwise is refused") {
  const PixelFiles files;
  Graph graph;
  has(error_text(Errc::invalid_argument,
                 [&] { read_source(graph, files.source(), {.replicas = 2}); }),
      "2 replicas share the batches of a source, and this one does not end with batches");
  read_source(graph, files.source(), {.replicas = 1});
}

TEST_CASE("a function that says the data have ended does not end a training well") {
  const PixelFiles files;
  const auto ops =
      ops_with({}, {{"end", [](const Fields& fields, const SourceArgs&) {
                       return SourceStep{.fields = fields, .map = [](const SourceCall&) -> Record {
                                           throw Error(Errc::end_of_data, "no more");
                                         }};
                     }}});
  const Source source = files.source().map("end").batch(4);
  Classifier model(1, &source, ops);
  Session session = Session::local(model.graph);
  TrainOptions options;
  options.steps = 5;
  has(error_text(Errc::bad_data, [&] { train(session, model.towers, options); }), "no more");
}

TEST_CASE("a process that finds other files than the program saw refuses to read") {
  std::optional<PixelFiles> files(std::in_place);
  const Source source = files->batches();
  Classifier model(2, &source);
  Session session = Session::local(model.graph);
  const std::string path = files->labels.path();
  files.reset();
  const TempFile images("images", idx({kRecords, 2}, PixelFiles::pixels())),
      labels("labels", gzip(idx({kRecords}, PixelFiles::classes())));
  CHECK(labels.path() == path);
  const std::string text =
      error_text(Errc::bad_data, [&] { train(session, model.towers, {.steps = 1}); });
  has(text, "/ReadSource on ");
  has(text, "file 2, test-labels (");
}

TEST_CASE("a graph's towers load the files of a source once") {
  std::atomic<int> built{0};
  const auto ops = ops_with(
      {}, {{"same", [&](const Fields& fields, const SourceArgs&) {
              ++built;
              return SourceStep{.fields = fields,
                                .map = [](const SourceCall& call) { return call.record(); }};
            }}});
  const PixelFiles files;
  const Source source = files.source().map("same").batch(4);
  const Classifier model(3, &source, ops);
  CHECK(built == 1);
  Graph other(ops);
  const SourceBatch batch = read_source(other, source);
  CHECK(built == 2);
  CHECK(batch["label"].dtype() == DType::u8);
  const SourceBatch again = read_source(other, source);
  CHECK(again.fields() == batch.fields());
  CHECK(built == 2);
}

TEST_CASE("the second field of a source is the label where none is called so") {
  const PixelFiles files;
  const Source source =
      files.source()
          .map("rename", {{"from", std::string("label")}, {"to", std::string("targets")}})
          .batch(4);
  Classifier model(1, nullptr);
  Session session = Session::local(model.graph);
  const Scores scores = evaluate(
      session,
      {.feeds = model.batches[0], .fetches = {model.towers[0].loss}, .metrics = {perplexity()}},
      source);
  CHECK(scores.at("perplexity") == doctest::Approx(2));  // of equal scores for two classes
}

}  // namespace
}  // namespace troupe
