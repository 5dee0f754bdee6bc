// Parameters that cannot be made at once: preparing a call again retries them.
#include <atomic>
#include <future>
#include <optional>
#include <set>
#include <thread>

#include "actors/master/session_state.hpp"
#include "training/group/parameter_group.hpp"
#include "tests/support/engine/local_cluster.hpp"
#include "tests/support/refusal.hpp"
#include "troupe/custom_op.hpp"
#include "troupe/ops.hpp"
#include "troupe/optimizer.hpp"
#include "troupe/training.hpp"

namespace troupe {
namespace {

std::atomic<int> failures{0};  // the number of next runs of Moody's kernel that throw

// The project's ops, and Moody, whose value is 7 and whose kernel may throw.
std::shared_ptr<const Registry> with_moody() {
  return ops_with(
      {{.name = "Moody",
        .outputs = {"y"},
        .infer_dtypes = [](const InferContext&) { return std::vector<DType>{DType::f64}; },
        .infer_shapes =
            [](const InferContext&) {
              return std::vector(1, Shape{1, 1});
            },
        .no_gradient = "nobody asks",
        .kernels = {{DeviceKind::cpu, DType::f64,
                     [](KernelContext& c) {
                       if (failures > 0 && failures-- > 0) throw c.error("not today");
                       c.output().mutable_data<double>()[0] = 7;
                     }}},
        .stateful = true}});  // no pass may run it
}

Tower tower(Graph& graph, const std::string& name, Output initial) {
  auto scope = graph.scope({.name = name, .replica = 0});
  Output w = parameter(name, initial);
  Output loss = reduce_mean(square(w - 3.0));
  return {0, loss, minimize(loss, sgd(0.1)), {}, {}};
}

double value(Session& session, const std::string& name) {
  return parameter_values(session).at(name).item<double>();
}

}  // namespace

TEST_CASE("parameters whose first values failed are made when a call is prepared again") {
  Graph graph(with_moody());
  const Tower moody = tower(graph, "moody", graph.add({.op = "Moody"}));
  const Tower calm = tower(graph, "calm", fill(graph, {1, 1}, 5, DType::f64));
  Session session = Session::local(graph, {.threads = 1});
  failures = 2;
  for (int i = 0; i < 2; ++i) {
    CHECK_THROWS_WITH_AS(session.prepare({moody.loss}, {}), doctest::Contains("not today"), Error);
    CHECK(parameter_values(session).empty());
  }
  TrainOptions options{.steps = 1};
  SUBCASE("at once") {}
  SUBCASE("after another parameter was trained, in a later epoch") {
    train(session, {calm}, options);
    CHECK(value(session, "calm") == doctest::Approx(4.6));
    CHECK(parameter_values(session).count("moody") == 0);
  }
  session.prepare({moody.loss}, {});
  CHECK(value(session, "moody") == 7);
  train(session, {moody}, options);
  CHECK(value(session, "moody") == doctest::Approx(6.2));
}

TEST_CASE("an epoch that begins with given values computes those of the other parameters") {
  Graph graph(with_moody());
  const Tower moody = tower(graph, "moody", graph.add({.op = "Moody"}));
  const Tower calm = tower(graph, "calm", fill(graph, {1, 1}, 5, DType::f64));
  Session session = Session::local(graph, {.threads = 1});
  session.prepare({calm.loss}, {});
  session.prepare({moody.loss}, {});
  const ParameterVisit group(session);
  const auto values = std::make_shared<std::map<std::string, Tensor>>();
  (*values)["calm"] = Tensor::of<double>({9}, {1, 1});
  group->wait([&](ParameterGroup::Done done) {
    group->establish({.values = values, .replicas = {0}}, std::move(done));
  });
  CHECK(value(session, "calm") == 9);
  CHECK(value(session, "moody") == 7);
}

TEST_CASE("programs that lay shared parameters out in different ways are told how they differ") {
  LocalCluster cluster({"/job:ps/task:0"});
  Graph graph_a, graph_b;
  const Tower both_a = tower(graph_a, "a", fill(graph_a, {1, 1}, 5, DType::f64));
  const Tower both_b = tower(graph_b, "b", fill(graph_b, {1, 1}, 6, DType::f64));
  ConnectOptions shared;
  shared.container = "shared";
  Session a = cluster.connect(graph_a, {}, shared), b = cluster.connect(graph_b, {}, shared);
  a.prepare({both_a.loss}, {});
  check_error(
      Errc::bad_configuration, [&] { b.prepare({both_b.loss}, {}); }, "container shared",
      "/job:ps/task:0", "it has a", "wants b");
  CHECK(value(a, "a") == 5);
}

TEST_CASE("a container cannot have the name of a session's own one, which goes with the session") {
  LocalCluster cluster({"/job:ps/task:0"});
  Graph graph;
  ConnectOptions shared;
  shared.container = "session-12";
  check_error(
      Errc::invalid_argument, [&] { cluster.connect(graph, {}, shared); }, "\"session-12\"",
      "choose another name");
  for (const char* const name : {"session-", "session-a1", "my-session-12"}) {
    shared.container = name;
    CHECK_NOTHROW(cluster.connect(graph, {}, shared));
  }
}

TEST_CASE("a program that is first at a ps which is back does not take over its container") {
  LocalCluster cluster({"/job:ps/task:0"});
  Graph graph_a, graph_b;
  const Tower tower_a = tower(graph_a, "w", fill(graph_a, {1, 1}, 5, DType::f64));
  const Tower tower_b = tower(graph_b, "w", fill(graph_b, {1, 1}, 5, DType::f64));
  ConnectOptions shared;
  shared.container = "shared";
  Session a = cluster.connect(graph_a, {}, shared);
  std::optional<Session> b;
  TrainOptions options{.steps = 6, .pause_every = 3};
  options.on_pause = [&](const TrainPause&) {
    if (b) return true;
    cluster.process(0).stop();
    cluster.restart(0);
    b.emplace(cluster.connect(graph_b, {}, shared));
    b->prepare({tower_b.loss}, {});
    return true;
  };
  const TrainResult result = train(a, {tower_a}, options);
  CHECK(result.recoveries == 1);
  options.patience = std::chrono::seconds(5);
  check_error(
      Errc::invalid_argument, [&] { train(*b, {tower_b}, options); },
      "another session owns the parameters of container shared", "start this program again");
  const double left = value(a, "w");
  Graph graph;
  const Tower alone = tower(graph, "w", fill(graph, {1, 1}, 5, DType::f64));
  Session session = Session::local(graph, {.threads = 1});
  train(session, {alone}, {.steps = 6});
  CHECK(left == value(session, "w"));
}

TEST_CASE("a program that makes shard 0 anew beside shards of a training is told whose they are") {
  LocalCluster cluster({"/job:ps/task:0", "/job:ps/task:1"});
  const auto two = [](Graph& graph) {
    auto scope = graph.scope({.replica = 0});
    Output v = parameter("v", fill(graph, {1, 1}, 4, DType::f64));
    Output w = parameter("w", fill(graph, {1, 1}, 5, DType::f64));
    Output loss = reduce_mean(square(v * w - 3.0));
    return Tower{0, loss, minimize(loss, sgd(0.01)), {}, {}};
  };
  Graph graph_a, graph_b;
  const Tower tower_a = two(graph_a), tower_b = two(graph_b);
  ConnectOptions shared;
  shared.container = "shared";
  Session a = cluster.connect(graph_a, {}, shared);
  train(a, {tower_a}, {.steps = 2});
  cluster.process(0).stop();
  cluster.restart(0);
  Session b = cluster.connect(graph_b, {}, shared);
  check_error(
      Errc::invalid_argument, [&] { b.prepare({tower_b.loss}, {}); },
      "another session owns the parameters of container shared", "in epoch 2");
}

TEST_CASE("the parameters of a session that was trained are freed with it") {
  std::weak_ptr<ParameterGroup> parameters;
  {
    Graph graph;
    const Tower t = tower(graph, "w", fill(graph, {1, 1}, 5, DType::f64));
    Session session = Session::local(graph, {.threads = 1});
    train(session, {t}, {.steps = 1});
    parameters = ParameterVisit(session)->weak_from_this();
    CHECK(!parameters.expired());
  }
  CHECK(parameters.expired());
}

TEST_CASE("whoever waits for parameters is told when what does the work has failed") {
  Graph graph;
  const Tower t = tower(graph, "w", fill(graph, {1, 1}, 5, DType::f64));
  Session session = Session::local(graph, {.threads = 1});
  session.prepare({t.loss}, {});
  ParameterVisit group(session);
  const auto slices = std::make_shared<std::vector<ParameterSlice>>();
  group->describe(slices, [](Errc, const std::string&) { throw std::runtime_error("a bug"); });
  for (int i = 0; i < 2; ++i) {
    const auto describe = [&](ParameterGroup::Done done) {
      group->describe(slices, std::move(done));
    };
    check_error(
        Errc::internal, [&] { group->wait(describe); }, "a bug");
  }
}

TEST_CASE("a ps that is away while parameters are made is missed, not done without") {
  LocalCluster cluster({"/job:ps/task:0", "/job:worker/task:0"});
  Graph graph;
  const Tower t = tower(graph, "w", fill(graph, {1, 1}, 5, DType::f64));
  Session session = cluster.connect(graph);
  cluster.process(0).stop();
  while (session.state().master->members().agents().size() == 2) std::this_thread::yield();
  CHECK(error_text(Errc::peer_lost, [&] { session.prepare({t.loss}, {}); }) ==
        "/job:ps/task:0: it is not there");
}

TEST_CASE("shards with untrained parameters alone are as they were after any step") {
  LocalCluster cluster({"/job:ps/task:0", "/job:ps/task:1"});
  Graph graph;
  Output w, fixed;
  {
    auto scope = graph.scope({.name = "tower", .replica = 0});
    w = parameter("w", fill(graph, {1, 1}, 5, DType::f64));
    fixed = parameter("fixed", fill(graph, {8, 8}, 1, DType::f64));  // alone on its ps
  }
  Output loss = reduce_mean(square(w - 3.0 * reduce_mean(fixed)));
  Session session = cluster.connect(graph);
  std::set<std::string> tasks;
  Errc looked = Errc::internal;
  TrainOptions options{.steps = 10, .pause_every = 5};
  options.on_pause = [&](const TrainPause& pause) {
    for (const ParameterSlice& slice : parameter_slices(session)) tasks.insert(slice.task);
    std::promise<Errc> answer;
    ParameterVisit(session)->look_again(
        pause.step, [&](Errc code, const std::string&) { answer.set_value(code); });
    looked = answer.get_future().get();
    return true;
  };
  train(session, {{0, loss, minimize(loss, sgd(0.1), {w}), {}, {}}}, options);
  CHECK(tasks.size() == 2);
  CHECK(looked == Errc::ok);
}

}  // namespace troupe
