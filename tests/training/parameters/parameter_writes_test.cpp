// Parameters that a program writes itself: assignments, sums, rows and counters as ops of a graph,
// in sessions, trainings and checkpoints.

#include <functional>
#include <optional>

#include "ops/state/pushes.hpp"
#include "tests/support/fake_shards.hpp"
#include "tests/support/fit.hpp"
#include "tests/support/engine/local_cluster.hpp"
#include "troupe/ops/control_flow.hpp"
#include "troupe/ops/parameters.hpp"

namespace troupe {
namespace {

Tensor number(double value) { return Tensor::scalar<double>(value); }

Tensor value_of(Session& session, const std::string& name) {
  return parameter_values(session).at(name);
}

// A table of 4 rows of 2 numbers, all 0.
Output table_in(Graph& graph) {
  return parameter("table", constant(graph, Tensor::zeros(DType::f64, {4, 2})));
}

}  // namespace

TEST_CASE("a counter counts the runs of its update, and a run reads what was before it") {
  Graph graph;
  const Counter runs = counter(graph, "runs", 5);
  Session session = Session::local(graph, {.threads = 1});
  for (int64_t i = 0; i < 3; ++i)
    CHECK(session.run({runs.value, runs.update})[0].item<int64_t>() == 5 + i);
  session.run({runs.update});
  CHECK(session.run({runs.value})[0].item<int64_t>() == 9);
}

TEST_CASE("a counter that a body makes for itself counts its calls") {
  Graph graph;
  const Function f = define_function(graph, "f", {{DType::i64, Shape{}}}, [&](const auto& x) {
    const Counter calls = counter(graph, "calls", 3);
    return std::vector<Output>{x[0] * calls.value, calls.update};
  });
  const Output two = constant(graph, Tensor::scalar<int64_t>(2));
  const auto a = f({two}), b = f({two});
  Session session = Session::local(graph, {.threads = 1});
  CHECK(session.run({a[0], a[1], b[1]})[0].item<int64_t>() == 6);
  CHECK(session.run({a[0], a[1]})[0].item<int64_t>() == 10);
  CHECK(value_of(session, "calls").item<int64_t>() == 6);
}

TEST_CASE("writes of one step happen in the order in which they were added") {
  for (const bool remote : {false, true}) {
    CAPTURE(remote);
    Graph graph;
    const Output table = table_in(graph);
    const Output all = assign(table, fill(graph, {4, 2}, 1, DType::f64));
    const Output add = scatter_add(table, constant(graph, Tensor::of<int32_t>({1, 1, 3}, {3})),
                                   constant(graph, Tensor::of<double>({1, 2, 3, 4, 5, 6}, {3, 2})));
    const Output set = scatter_update(table, constant(graph, Tensor::of<int64_t>({3, 3}, {2})),
                                      constant(graph, Tensor::of<double>({7, 8, 9, 10}, {2, 2})));
    const Output twice = assign_add(table, table);
    const Output step = group(graph, {twice, set, add, all});
    std::optional<LocalCluster> cluster;
    if (remote) cluster.emplace(std::vector<std::string>{"/job:ps/task:0", "/job:worker/task:0"});
    Session session = remote ? cluster->connect(graph) : Session::local(graph, {.threads = 2});
    for (int i = 0; i < 2; ++i) session.run({step});
    // The second step adds the table that the first step left.
    CHECK(same_bits(value_of(session, "table"),
                    Tensor::of<double>({2, 2, 10, 14, 2, 2, 18, 20}, {4, 2})));
  }
}

TEST_CASE("each call of a function that writes is a write of its own, and none is in a loop") {
  Graph graph;
  const Output sum = parameter("sum", constant(graph, number(0)));
  const Function count =
      define_function(graph, "count", {{DType::f64, Shape{}}},
                      [&](const auto& v) { return std::vector<Output>{assign_add(sum, v[0])}; });
  const Output one = constant(graph, number(1));
  const Output a = count({one})[0], b = count({constant(graph, number(2))})[0];
  Session session = Session::local(graph, {.threads = 1});
  session.run({a, b});
  CHECK(value_of(session, "sum").item<double>() == 3);
  const auto loop = [&] {
    while_loop([](const auto& v) { return v[0]; }, [&](const auto&) { return count({one}); },
               {constant(graph, Tensor::scalar(true))});
  };
  CHECK_THROWS_WITH_AS(loop(), doctest::Contains("it is called in a loop, and its body has the"),
                       Error);
  CHECK_THROWS_WITH_AS(loop(), doctest::Contains("parameter sum is written once a step"), Error);
}

TEST_CASE("a step that is done again writes once") {
  Graph graph;
  const Counter runs = counter(graph, "runs");
  Session session = Session::local(graph, {.threads = 1});
  for (const int64_t step : {0, 0, 3, 3, 4})
    CHECK(session.run({runs.value, runs.update}, {}, {.step = step})[0].item<int64_t>() ==
          (step == 0   ? 0
           : step == 3 ? 1
                       : 2));
  CHECK(value_of(session, "runs").item<int64_t>() == 3);
}

TEST_CASE("writes beside a training go on from a checkpoint, under both rules") {
  for (const Aggregation& rule : {Aggregation::sync, Aggregation::async}) {
    CAPTURE(to_string(rule));
    const auto model = [](Fit& fit) {
      Tower& tower = fit.all[0];
      const auto scope = fit.graph.scope({.name = "beside", .replica = 0});
      const Counter runs = counter(fit.graph, "runs");
      const Output table = table_in(fit.graph);
      const Output rows = reshape(runs.value, {1}) % 4;
      const Output seen = scatter_add(table, rows, fill(fit.graph, {1, 2}, 1, DType::f64));
      tower.update = group(fit.graph, {tower.update, runs.update, seen});
    };
    Folder folder("train-writes");
    TrainOptions options{.rule = rule, .steps = 5, .checkpoint_dir = folder.path()};
    {
      Fit fit;
      model(fit);
      Session session = Session::local(fit.graph, {.threads = 2});
      train(session, fit.all, options);
      CHECK(value_of(session, "runs").item<int64_t>() == 5);
    }
    options.steps = 9;
    options.resume = true;
    Fit fit;
    model(fit);
    Session session = Session::local(fit.graph, {.threads = 2});
    CHECK(train(session, fit.all, options).resumed_at == 5);
    CHECK(value_of(session, "runs").item<int64_t>() == 9);
    CHECK(same_bits(value_of(session, "table"),
                    Tensor::of<double>({3, 3, 2, 2, 2, 2, 2, 2}, {4, 2})));
  }
}

TEST_CASE(
    "a parameter is either trained or written, and by one replica if updates are synchronous") {
  Graph graph;
  const Output w = parameter("w", constant(graph, number(0)));
  const Output push = push_gradient(w, constant(graph, number(1)));
  const Output set = assign(w, constant(graph, number(2)));
  Session session = Session::local(graph, {.threads = 1});
  CHECK_THROWS_WITH_AS(session.run({push, set}),
                       doctest::Contains("parameter w is trained, and written by the "
                                         "WriteParameter node WriteParameter"),
                       Error);

  Graph two;
  std::vector<Output> writes;
  for (int replica = 0; replica < 2; ++replica) {
    const auto scope = two.scope({.replica = replica});
    writes.push_back(counter(two, "runs").update);
  }
  Session both = Session::local(two, {.threads = 1});
  both.run({writes[0]});
  CHECK_THROWS_WITH_AS(both.run({writes[1]}),
                       doctest::Contains("runs is written by replica 0 and by replica 1"), Error);
}

TEST_CASE("what cannot be written is refused while the graph is built") {
  Graph graph;
  const Output table = table_in(graph), x = fill(graph, {4, 2}, 1, DType::f64);
  const Output ids = constant(graph, Tensor::of<int64_t>({0, 1}, {2}));
  const auto refused = [](const std::function<void()>& f, const std::string& text) {
    check_invalid(f, text);
  };
  refused([&] { assign(x, x); }, "wants what parameter() returned, got the Fill node Fill");
  refused([&] { assign(Output{}, x); }, "its parameter is an undefined Output");
  refused([&] { assign(table, fill(graph, {4}, 1, DType::f64)); },
          "the parameter table is f64[4, 2], the value f64[4]");
  refused(
      [&] {
        assign_add(table, fill(graph, {4, 2}, 1));
      },
      "the parameter table is f64[4, 2], the value f32[4, 2]");
  refused([&] { scatter_add(table, ids, x); }, "wants a row of values for each index");
  refused(
      [&] {
        scatter_update(table, ids, fill(graph, {2, 3}, 1, DType::f64));
      },
      "wants rows of the parameter table, which is f64[4, 2]");
  refused(
      [&] {
        scatter_update(table, x, fill(graph, {4, 2, 2}, 1, DType::f64));
      },
      "wants indices of i32 or i64, got f64");
  const Output flag = parameter("flag", constant(graph, Tensor::scalar<bool>(true)));
  refused([&] { assign_add(flag, flag); }, "wants numbers to add, got bool");
  CHECK_NOTHROW(assign(flag, flag));
}

TEST_CASE("an index that is no row fails the step, naming the parameter") {
  // A small table in one slice, and one cut over two shards with 64 KiB a slice; in this process
  // and in other processes.
  for (const bool remote : {false, true})
    for (const int64_t rows : {4, 20'000}) {
      CAPTURE(remote);
      CAPTURE(rows);
      Graph graph;
      const Output ids = placeholder(graph, DType::i32, {-1}, "ids");
      const Output table = parameter("table", fill(graph, {rows, 2}, 0, DType::f64));
      const Output ones = fill(graph, {2, 2}, 1, DType::f64);
      const Output writes[] = {scatter_add(table, ids, ones), scatter_update(table, ids, ones)};
      const Output pushed = parameter("pushed", fill(graph, {rows, 2}, 0, DType::f64));
      const Output push = push_row_gradient(pushed, {cast(ids, DType::i64), ones}, sgd(0.5));
      std::optional<LocalCluster> cluster;
      if (remote)
        cluster.emplace(
            std::vector<std::string>{"/job:ps/task:0", "/job:ps/task:1", "/job:worker/task:0"});
      Session session = remote ? cluster->connect(graph) : Session::local(graph, {.threads = 1});
      const std::string range = detail::concat(" (number 1 of 2) is not in [0, ", rows, ")");
      const auto refused = [&](const Output& what, const std::string& name) {
        for (const auto bad : {static_cast<int32_t>(rows), -1}) {
          const Tensor fed = Tensor::of<int32_t>({0, bad}, {2});
          check_invalid(
              [&] {
                session.run({what}, {{ids, fed}});
              },
              detail::concat("index ", bad, range, ", the rows of ", name,
                             "; indices count from 0: give one of those"));
        }
      };
      for (const Output& write : writes) refused(write, "table");
      refused(push, "pushed");
      const Tensor good = Tensor::of<int32_t>({0, static_cast<int32_t>(rows - 1)}, {2});
      session.run({writes[0]}, {{ids, good}});
      session.run({push}, {{ids, good}});
      const Tensor after = value_of(session, "table"), trained = value_of(session, "pushed");
      for (const int64_t i : {int64_t{0}, 2 * rows - 1}) {
        CHECK(after.data<double>()[i] == 1);
        CHECK(trained.data<double>()[i] == -0.5);
      }
      CHECK(after.data<double>()[2] == 0);
    }
}

TEST_CASE("a write hands over what it writes, and says so if there are no shards") {
  Graph graph;
  const auto tower = graph.scope({.replica = 2});
  const Output table = table_in(graph), x = fill(graph, {4, 2}, 1, DType::f64);
  const Node& set = graph.node(assign(table, x).node);
  const Node& rows = graph.node(scatter_add(table, constant(graph, Tensor::of<int32_t>({1}, {1})),
                                            fill(graph, {1, 2}, 1, DType::f64))
                                    .node);
  CHECK(rows.control_inputs == std::vector<int32_t>{table.node, set.id});
  FakeShards shards;
  shards.values["table"] = Tensor::zeros(DType::f64, {4, 2});
  const Tensor all = Tensor::zeros(DType::f64, {4, 2}), row = Tensor::zeros(DType::f64, {1, 2});
  const RunContext run{.step = 9, .parameters = &shards};
  CHECK(fire(set, {all}, run).code == Errc::ok);
  CHECK(fire(rows, {Tensor::of<int32_t>({1}, {1}), row}, run).code == Errc::ok);
  REQUIRE(shards.writes.size() == 2);
  CHECK(shards.writes[0].change.kind == ParameterWrite::assign);
  CHECK(shards.writes[0].change.number == 0);
  CHECK(same_bits(shards.writes[0].change.values, all));
  CHECK(shards.writes[1].change.kind == ParameterWrite::add_rows);
  CHECK(shards.writes[1].change.number == 1);
  CHECK(shards.writes[1].replica == 2);
  CHECK(shards.writes[1].step == 9);
  CHECK(same_bits(shards.writes[1].change.indices, Tensor::of<int64_t>({1}, {1})));
  const FakeFiring torn = fire(rows, {Tensor::of<int32_t>({1, 2}, {2}), row}, run);
  CHECK(torn.code == Errc::invalid_argument);
  has(torn.text, "wants a row for each of the indices [2], got [1, 2]");
  const FakeFiring alone = fire(set, {all}, {});
  CHECK(alone.code == Errc::invalid_argument);
  has(alone.text, "has no parameter shards");
}

TEST_CASE("a loop does not write, as a write happens once a step") {
  Graph graph;
  const Output w = parameter("w", constant(graph, number(0)));
  CHECK_THROWS_WITH_AS(
      while_loop([](const std::vector<Output>& v) { return less(v[0], v[0] + 1); },
                 [&](const std::vector<Output>& v) {
                   assign(w, v[0]);
                   return v;
                 },
                 {constant(graph, number(0))}),
      doctest::Contains("it is inside a loop, but parameter w is written once a step"), Error);
}

}  // namespace troupe
