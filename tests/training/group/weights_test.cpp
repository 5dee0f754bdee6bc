// Values of parameters by name, and files of them, in this process and on a cluster.
#include "tests/support/engine/local_cluster.hpp"
#include "tests/support/fit.hpp"
#include "tests/support/temp_file.hpp"
#include "troupe/files.hpp"

namespace troupe {
namespace {

Tensor number(double value) { return Tensor::of<double>({value}, {1, 1}); }

double weight(Session& session) { return parameter_value(session, "w").item<double>(); }

void step(Session& session, const Fit& fit, int64_t number) {
  std::vector<Output> fetches;
  Feeds feeds;
  for (const Tower& tower : fit.all) {
    fetches.push_back(tower.update);
    feeds.emplace_back(tower.feeds[0], tower.batch(number)[0]);
  }
  session.run(fetches, feeds, {.step = number});
}

TEST_CASE("a parameter is read before anything ran, and an unknown name has a neighbour") {
  LocalFit fit;
  CHECK(weight(fit.session) == 0);
  check_invalid([&] { parameter_value(fit.session, "ww"); },
                "the graph has no parameter ww; did you mean w?");
}

TEST_CASE("a parameter that is set has that value, and steps go on where they were") {
  LocalFit fit(adam(0.1));
  step(fit.session, fit, 0);
  step(fit.session, fit, 1);
  set_parameters(fit.session, {{"w", number(5)}});
  CHECK(weight(fit.session) == 5);
  step(fit.session, fit, 2);
  const double after = weight(fit.session);
  // The first update of Adam moves by the learning rate: its moments are of one step again.
  CHECK(after == doctest::Approx(4.9).epsilon(1e-6));
}

TEST_CASE("parameters that are not set keep their values") {
  Graph graph;
  const Output a = parameter("a", fill(graph, {2}, 1)), b = parameter("b", fill(graph, {3}, 2));
  Output loss = reduce_sum(square(a)) + reduce_sum(square(b));
  const Output update = minimize(loss, sgd(0.25));
  Session session = Session::local(graph, {.threads = 2});
  session.run({update});
  set_parameters(session, {{"a", Tensor::of<float>({7, 8}, {2})}});
  CHECK(same_bits(parameter_value(session, "a"), Tensor::of<float>({7, 8}, {2})));
  CHECK(same_bits(parameter_value(session, "b"), Tensor::of<float>({1, 1, 1}, {3})));
}

TEST_CASE("values that do not fit are refused before any is set") {
  LocalFit fit;
  const auto refused = [&](const std::map<std::string, Tensor>& values, const char* text) {
    check_invalid([&] { set_parameters(fit.session, values); }, text);
    CHECK(weight(fit.session) == 0);
  };
  refused({{"v", number(1)}, {"w", number(1)}}, "the graph has no parameter v; did you mean w?");
  refused({{"w", Tensor::scalar(1.0)}}, "parameter w is f64[1, 1], the value is f64[]");
  refused({{"w", Tensor::of<float>({1}, {1, 1})}}, "is f64[1, 1], the value is f32[1, 1]");
  refused({{"w", Tensor()}}, "the value of w is empty");
  TrainOptions options{.steps = 2, .pause_every = 1};
  Refusal set, load;
  Folder folder("weights-in-a-pause");
  options.on_pause = [&](const TrainPause& pause) {
    pause.save(folder.path());
    set = refusal_of([&] { set_parameters(fit.session, {{"w", number(1)}}); });
    load = refusal_of([&] { load_parameters(fit.session, folder.path()); });
    return true;
  };
  fit.train(options);
  for (const Refusal& refusal : {set, load}) {
    CHECK(refusal.code == Errc::invalid_argument);
    has(refusal.text, "the parameters are being trained");
  }
}

TEST_CASE("a training begins with values that were set") {
  LocalFit fit, other;
  set_parameters(fit.session, {{"w", number(5)}});
  const double first = fit.train(steps(1)).loss;
  // The loss is the square of the distance to 3, times the mean of x^2.
  CHECK(first == doctest::Approx(other.train(steps(1)).loss * 4 / 9));
  CHECK(weight(fit.session) > 4);
  CHECK(weight(other.session) < 1);
}

TEST_CASE("weights move through files of both kinds to another session") {
  for (const char* name : {"moved.safetensors", "moved.npz"}) {
    const TempFile file(name, "");
    LocalFit fit(adam(0.1)), other(adam(0.1));
    fit.train(steps(4));
    save_weights(fit.session, file.path());
    CHECK(same_bits(read_tensors(file.path()).at("w"), parameter_value(fit.session, "w")));
    const LoadReport report = load_weights(other.session, file.path());
    CHECK(report.loaded == std::vector<std::string>{"w"});
    CHECK(weight(other.session) == weight(fit.session));
    write_tensors(file.path(), {{"x", number(1)}});
    check_error(
        Errc::bad_configuration, [&] { load_weights(other.session, file.path()); }, file.path(),
        "the file has no w", "the graph has no x");
    CHECK(weight(other.session) == weight(fit.session));
  }
  LocalFit fit;
  check_invalid([&] { save_weights(fit.session, "weights.bin"); }, "neither .npz nor");
}

TEST_CASE("half numbers of a file become a graph's floats on request") {
  const TempFile file("half.safetensors", "");
  write_tensors(file.path(), {{"net.w", Tensor::of<Float16>({Float16(1.5)}, {1, 1})}});
  LocalFit fit;
  load_weights(fit.session, file.path(), {.rename = {{"", "net."}}, .cast = true});
  CHECK(weight(fit.session) == 1.5);
}

// A body that both have, and a head of `classes`, in two layers.
struct Network {
  explicit Network(int64_t classes, bool train_body = true) {
    const Output x = placeholder(graph, DType::f32, {-1, 3}, "x");
    const Output body = parameter("body/w", fill(graph, {3, 4}, 0.5));
    const Output head = parameter("head/w", fill(graph, {4, classes}, 0.25));
    std::vector<Output> trained = {head};
    if (train_body) trained.push_back(body);
    loss = reduce_mean(square(matmul(matmul(x, body), head) - 1.0));
    feeds = {{x, Tensor::of<float>({1, 2, 3}, {1, 3})}};
    update = minimize(loss, adam(0.1), trained);
  }
  Graph graph;
  Output loss, update;
  Feeds feeds;
};

TEST_CASE("a checkpoint serves a graph with a new head, whose body then stays as it is") {
  Folder folder("new-head");
  Network old(5);
  Session trained = Session::local(old.graph, {.threads = 2});
  for (int i = 0; i < 3; ++i) trained.run({old.update}, old.feeds);
  save_parameters(trained, folder.path());
  const Tensor body = parameter_value(trained, "body/w");

  Network fresh(2, /*train_body=*/false);
  Session session = Session::local(fresh.graph, {.threads = 2});
  check_error(
      Errc::bad_configuration, [&] { load_parameters(session, folder.path()); },
      "its parameter head/w is f32[4, 5], the graph's is f32[4, 2]", "strict = false");
  const LoadReport report = load_parameters(session, folder.path(), {.strict = false});
  CHECK(report.loaded == std::vector<std::string>{"body/w"});
  CHECK(report.mismatched ==
        std::vector<std::string>{"head/w is f32[4, 2] in the graph, f32[4, 5] in the file"});
  CHECK(same_bits(parameter_value(session, "body/w"), body));
  const Tensor head = parameter_value(session, "head/w");
  CHECK(head.values<float>()[0] == 0.25f);
  session.run({fresh.update}, fresh.feeds);
  CHECK(same_bits(parameter_value(session, "body/w"), body));
  CHECK(!same_bits(parameter_value(session, "head/w"), head));
}

TEST_CASE("a checkpoint with more parameters serves a smaller graph, under another name, too") {
  Folder folder("smaller");
  Network old(5);
  Session trained = Session::local(old.graph, {.threads = 2});
  trained.run({old.update}, old.feeds);
  save_parameters(trained, folder.path());
  Graph graph;
  parameter("net/w", fill(graph, {3, 4}, 0));
  Session session = Session::local(graph, {.threads = 2});
  const LoadReport report =
      load_parameters(session, folder.path(), {.strict = false, .rename = {{"net/", "body/"}}});
  CHECK(report.unused == std::vector<std::string>{"head/w"});
  CHECK(same_bits(parameter_value(session, "net/w"), parameter_value(trained, "body/w")));
  check_error(
      Errc::bad_configuration, [&] { load_parameters(session, folder.path(), {.strict = false}); },
      "no parameter of the graph takes a tensor", "the file has no net/w");
  Folder empty("smaller-empty");
  check_invalid([&] { load_parameters(session, empty.path(), {.strict = false}); },
                "there is no checkpoint in");
}

TEST_CASE("strict options keep the optimizer's state of a checkpoint") {
  Folder folder("strict-keeps");
  LocalFit fit(adam(0.1)), other(adam(0.1));
  for (int64_t i = 0; i < 3; ++i) step(fit.session, fit, i);
  save_parameters(fit.session, folder.path());
  CHECK(load_parameters(other.session, folder.path(), LoadOptions{}).loaded.size() == 1);
  step(fit.session, fit, 3);
  step(other.session, other, 3);
  CHECK(weight(other.session) == weight(fit.session));
}

TEST_CASE("weights are set, written and read over a cluster with several shards") {
  LocalCluster cluster({"/job:ps/task:0", "/job:ps/task:1", "/job:worker/task:0"});
  const TempFile file("cluster.safetensors", "");
  Graph graph;
  const Output big = parameter("big", fill(graph, {300, 200}, 1));
  const Output small = parameter("small", fill(graph, {2}, 2));
  const Output update =
      minimize(reduce_sum(square(big)) + reduce_sum(square(small)), momentum(0.25, 0.9));
  Session session = cluster.connect(graph);
  session.run({update});
  Tensor values = Tensor::empty(DType::f32, {300, 200});
  for (int i = 0; i < 60'000; ++i) values.mutable_data<float>()[i] = static_cast<float>(i);
  set_parameters(session, {{"big", values}});
  CHECK(same_bits(parameter_value(session, "big"), values));
  CHECK(same_bits(parameter_value(session, "small"), Tensor::of<float>({1, 1}, {2})));
  save_weights(session, file.path());
  session.run({update});
  CHECK(!same_bits(parameter_value(session, "big"), values));
  CHECK(load_weights(session, file.path()).loaded.size() == 2);
  CHECK(same_bits(parameter_value(session, "big"), values));
}

TEST_CASE("weights that were lost with a process are loaded when it is back") {
  LocalCluster cluster({"/job:ps/task:0", "/job:worker/task:0"});
  const TempFile file("lost.npz", "");
  Fit fit;
  Session session = cluster.connect(fit.graph);
  set_parameters(session, {{"w", number(5)}});
  save_weights(session, file.path());
  cluster.process(0).stop();
  CHECK(code_of([&] { load_weights(session, file.path()); }) == Errc::peer_lost);
  cluster.restart(0);
  load_weights(session, file.path(), {.patience = std::chrono::seconds(60)});
  CHECK(weight(session) == 5);
}

}  // namespace
}  // namespace troupe
