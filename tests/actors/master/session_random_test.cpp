// Random numbers in loops and functions: different in each iteration and call, equal in runs of one
// seed, and in a gradient equal to those of the forward pass.

#include <set>

#include "graph/base/philox.hpp"
#include "tests/support/central_differences.hpp"
#include "tests/support/engine/local_cluster.hpp"
#include "tests/support/engine/recursion.hpp"
#include "troupe/op.hpp"

namespace troupe {
namespace {

// The number in [0, 1) that a node of that name draws as f64, by the recipe of
// graph/base/philox.hpp.
double drawn(const std::string& name, std::initializer_list<int64_t> path) {
  RandomStream stream(0, name, -1, 0);
  for (int64_t i : path) stream.enter(i);
  const auto words = stream.block(0);
  return unit_double(words[0], words[1]);
}

Output draw(Graph& graph, std::string_view name = "u") {
  return random_uniform(graph, {}, 0, 1, 0, DType::f64, name);
}

std::set<double> different(const Tensor& values) {
  const auto all = values.values<double>();
  return {all.begin(), all.end()};
}

// rows[i] = the number that iteration i of a while_loop draws; `device`: where it draws.
Output by_while(Graph& graph, int64_t n, const WhileOptions& options, const std::string& device) {
  return while_loop(
      [&](const Values& v) { return less(v[0], whole(graph, n)); },
      [&](const Values& v) {
        const auto scope = graph.scope({.device = device});
        return Values{v[0] + 1, tensor_scatter_update(v[1], reshape(v[0], {1}), draw(graph))};
      },
      {whole(graph, 0), fill(graph, {n}, 0, DType::f64)}, options)[1];
}

Tensor ones(int64_t n) {
  return Tensor::of<double>(std::vector<double>(static_cast<size_t>(n), 1), Shape{n});
}

}  // namespace

TEST_CASE("a loop draws other numbers in each iteration, a scan in each row") {
  Graph graph;
  const Output w = by_while(graph, 5, {.name = "w"}, "");
  const Output x = fill(graph, {5}, 0, DType::f64);
  const Output m = map_rows([&](const Values& row) { return Values{row[0] + draw(graph)}; }, {x},
                            {.name = "m"})[0];
  const Output plain = draw(graph, "plain");
  Session session = Session::local(graph, {.threads = 1});
  const std::vector<Tensor> got = session.run({w, m, plain});
  for (int64_t i = 0; i < 5; ++i) {
    CHECK(got[0].data<double>()[i] == drawn("w/body/u", {i}));
    CHECK(got[1].data<double>()[i] == drawn("m/body/u", {i}));
  }
  CHECK(got[2].item<double>() == drawn("plain", {}));
  CHECK(different(session.run({w})[0]).size() == 5);
}

TEST_CASE("what a loop draws depends on no thread, pass, device or iteration in flight") {
  const auto drawn_by = [](const ProcessOptions& process, const WhileOptions& options,
                           const std::string& device) {
    Graph graph;
    const Output w = by_while(graph, 12, options, device);
    return Session::local(graph, process).run({w})[0];
  };
  const Tensor want = drawn_by({.threads = 1}, {}, "");
  CHECK(different(want).size() == 12);
  CHECK(same_bits(drawn_by({.threads = 4, .passes = false}, {}, ""), want));
  CHECK(same_bits(drawn_by({.threads = 2}, {.iterations_in_flight = 1}, ""), want));
  for (int64_t in_flight : {1, 8}) {
    CHECK(same_bits(drawn_by({.threads = 2, .cpu_devices = 2}, {.iterations_in_flight = in_flight},
                             "/device:cpu:1"),
                    want));
    CHECK(same_bits(drawn_by({.threads = 2, .shadow_devices = 1},
                             {.iterations_in_flight = in_flight}, "/device:shadow:0"),
                    want));
  }
  LocalCluster cluster({"/job:worker/task:0", "/job:worker/task:1"});
  Graph graph;
  const Output w = by_while(graph, 12, {}, "/job:worker/task:1");
  Session session = cluster.connect(graph);
  CHECK(same_bits(session.run({w})[0], want));
}

TEST_CASE("loops in each other and in branches draw by the iterations of all of them") {
  Graph graph;
  const Output x = fill(graph, {3, 4}, 0, DType::f64);
  const Output y = map_rows(
      [&](const Values& row) {
        return map_rows(
            [&](const Values& one) {
              const Output some = less(one[0], fill(graph, {}, 1, DType::f64));
              return Values{cond(
                  some, [&] { return draw(graph); }, [&] { return one[0]; })};
            },
            {row[0]}, {.name = "inner"});
      },
      {x}, {.name = "outer"})[0];
  Session session = Session::local(graph, {.threads = 1});
  const Tensor got = session.run({y})[0];
  for (int64_t i = 0; i < 3; ++i)
    for (int64_t j = 0; j < 4; ++j)
      CHECK(got.data<double>()[4 * i + j] == drawn("outer/body/inner/body/cond/branch1/u", {i, j}));
}

TEST_CASE("the copies of a function draw in loops by the iteration, and outside as they did") {
  Graph graph;
  const Function noise = define_function(graph, "noise", {kNumber}, [&](const Values& v) {
    const Output all = map_rows([&](const Values& row) { return Values{row[0] + draw(graph)}; },
                                {fill(graph, {2}, 0, DType::f64)}, {.name = "m"})[0];
    return Values{v[0] + draw(graph), all};
  });
  const Output zero = fill(graph, {}, 0, DType::f64);
  const Values once = noise({zero});
  const Values rows = map_rows([&](const Values& row) { return noise({row[0]}); },
                               {fill(graph, {3}, 0, DType::f64)}, {.name = "outer"});
  Session session = Session::local(graph, {.threads = 1});
  const std::vector<Tensor> got = session.run({once[0], once[1], rows[0], rows[1]});
  std::vector<std::string> names;  // the body's two drawing nodes, then their copies
  for (const auto& node : graph.nodes())
    if (node->op->name == "RandomUniform") names.push_back(node->name);
  REQUIRE(names.size() == 6);
  CHECK(got[0].item<double>() == drawn(names[3], {}));
  for (int64_t j = 0; j < 2; ++j) {
    CHECK(got[1].data<double>()[j] == drawn(names[2], {j}));
    for (int64_t i = 0; i < 3; ++i)
      CHECK(got[3].data<double>()[2 * i + j] == drawn(names[4], {i, j}));
  }
  for (int64_t i = 0; i < 3; ++i) CHECK(got[2].data<double>()[i] == drawn(names[5], {i}));
}

TEST_CASE("each call of a function that calls itself draws other numbers, the same by a seed") {
  for (int threads : {1, 4}) {
    Graph graph;
    const TensorType row{DType::f64, Shape{-1}};
    // All numbers that a tree of calls draws, in order; in its leaves a loop draws twice.
    Function tree = declare_function(graph, "tree", {kCount}, {row});
    tree.define([&](const Values& v) {
      return Values{cond(
          less_equal(v[0], whole(graph, 0)),
          [&] {
            return map_rows([&](const Values& one) { return Values{one[0] + draw(graph)}; },
                            {fill(graph, {2}, 0, DType::f64)})[0];
          },
          [&] {
            const Output own = reshape(draw(graph), {1});
            return concat({own, tree({v[0] - 1})[0], tree({v[0] - 1})[0]}, 0);
          })};
    });
    const Output one = tree({whole(graph, 3)})[0], other = tree({whole(graph, 3)})[0];
    const Output rows =
        map_rows([&](const Values& v) { return Values{reshape(tree({v[0]})[0], {23})}; },
                 {fill(graph, {2}, 3, DType::i64)})[0];
    Session session = Session::local(graph, {.threads = threads});
    const std::vector<Tensor> got = session.run({one, other, rows}, {}, {.seed = 1});
    std::set<double> all;
    for (const Tensor& values : got) {
      const std::set<double> these = different(values);
      all.insert(these.begin(), these.end());
    }
    CHECK(got[0].size() == 7 + 8 * 2);
    CHECK(all.size() == 4 * 23);
    const std::vector<Tensor> again = session.run({one, other, rows}, {}, {.seed = 1});
    for (size_t i = 0; i < 3; ++i) CHECK(same_bits(again[i], got[i]));
  }
}

TEST_CASE("functions that call each other draw other numbers if one that they reach draws") {
  Graph graph;
  Function ping = declare_function(graph, "ping", {kNumber, kCount}, {kNumber});
  Function pong = declare_function(graph, "pong", {kNumber, kCount}, {kNumber});
  ping.define([&](const Values& v) {  // does not draw itself
    return Values{cond(
        less_equal(v[1], whole(graph, 0)), [&] { return v[0]; },
        [&] {
          return pong({v[0], v[1] - 1})[0];
        })};
  });
  pong.define([&](const Values& v) { return ping({v[0] * 8 + floor(draw(graph) * 8), v[1]}); });
  const Output y = ping({fill(graph, {}, 0, DType::f64), whole(graph, 16)})[0];
  Session session = Session::local(graph, {.threads = 1});
  auto digits = static_cast<int64_t>(session.run({y})[0].item<double>());
  std::set<int64_t> seen;
  for (int i = 0; i < 16; ++i, digits /= 8) seen.insert(digits % 8);
  CHECK(seen.size() > 3);  // 16 equal digits if all calls drew the same number
}

TEST_CASE("a gradient draws the masks that dropout had in each iteration") {
  for (bool recompute : {false, true})
    for (bool scope : {false, true})
      for (const char* device : {"", "/device:cpu:1"}) {
        CAPTURE(recompute);
        CAPTURE(scope);
        CAPTURE(device);
        Graph graph;
        const Output x = placeholder(graph, DType::f64, {64}, "x");
        const WhileOptions options{.recompute = recompute};
        // Linear in x, so each element of y is its slope times that element of x, here 1.
        const Output y = while_loop(
            [&](const Values& v) { return less(v[0], whole(graph, 3)); },
            [&](const Values& v) {
              const auto there = graph.scope({.device = std::string(device)});
              const auto again = graph.scope({.name = "s", .recompute = scope});
              const Output once = dropout(v[1], 0.2, 3);
              const Output twice = counted_loop(v[0], {once}, options, [&](const Values& w) {
                return Values{dropout(w[1], 0.1, 5) * draw(graph)};
              })[1];
              return Values{v[0] + 1, twice};
            },
            {whole(graph, 0), x}, options)[1];
        const Output dx = gradients({y}, {x})[0];
        Session session = Session::local(graph, {.threads = 2, .cpu_devices = 2});
        const std::vector<Tensor> got = session.run({y, dx}, {{x, ones(64)}});
        check_close(got[1], got[0], 1e-12);
        const auto values = got[0].values<double>();
        const auto kept =
            std::count_if(values.begin(), values.end(), [](double v) { return v > 0; });
        CHECK(kept > 5);  // 24 of 64 expected; 46 if a node repeated its mask
        CHECK(kept < 40);
      }
}

TEST_CASE("the gradient of a recurrent network with dropout agrees with central differences") {
  for (bool recompute : {false, true}) {
    CAPTURE(recompute);
    Graph graph;
    const Output xs = placeholder(graph, DType::f64, {-1, 4}, "xs");
    const Output w = placeholder(graph, DType::f64, {4, 4}, "w");
    const Scanned scanned = scan(
        [&](const Values& carry, const Values& rows) {
          const Output h = dropout(tanh(matmul(carry[0], w) + reshape(rows[0], {1, 4})), 0.4, 7);
          return Scanned{{h}, {h}};
        },
        {fill(graph, {1, 4}, 0.1, DType::f64)}, {xs}, {.recompute = recompute, .name = "scan"});
    const Output loss = reduce_sum(square(scanned.rows[0]));
    const Values d = gradients({loss}, {xs, w});
    Session session = Session::local(graph, {.threads = 1});
    const auto run = [&](const Output& fetch, const std::vector<Tensor>& at) {
      return session.run({fetch}, {{xs, at[0]}, {w, at[1]}}, {.seed = 1})[0];
    };
    std::vector<double> x_values, w_values;
    for (int i = 0; i < 20; ++i) x_values.push_back(0.1 * (i % 7) - 0.3);
    for (int i = 0; i < 16; ++i) w_values.push_back(0.2 * (i % 5) - 0.35);
    const std::vector<Tensor> at = {Tensor::of<double>(x_values, Shape{5, 4}),
                                    Tensor::of<double>(w_values, Shape{4, 4})};
    check_slopes([&](const std::vector<Tensor>& x) { return run(loss, x).item<double>(); }, at,
                 {run(d[0], at), run(d[1], at)});
  }
}

TEST_CASE("the gradient of a function that calls itself draws each call's own masks") {
  Graph graph;
  const TensorType row{DType::f64, Shape{32}};
  const Output x = placeholder(graph, row.dtype, row.shape, "x");
  Function f = declare_function(graph, "f", {row, kCount}, {row});
  f.define([&](const Values& v) {
    return Values{cond(
        less_equal(v[1], whole(graph, 0)), [&] { return v[0]; },
        [&] {
          const Output once = dropout(v[0], 0.2, 3);
          const Output rows = map_rows(
              [&](const Values& one) { return Values{dropout(one[0], 0.1, 4) * draw(graph)}; },
              {reshape(once, {4, 8})})[0];
          return f({reshape(rows, {32}), v[1] - 1})[0];
        })};
  });
  const Output y = f({x, whole(graph, 3)})[0];
  Session session = Session::local(graph, {.threads = 1});
  const auto got = session.run({y, gradients({y}, {x})[0]}, {{x, ones(32)}});
  check_close(got[1], got[0], 1e-12);
  const auto kept = different(got[0]).size();
  CHECK(kept > 3);
}

TEST_CASE("a body that takes a gradient through dropout has one mask in it, at each call") {
  Graph graph;
  const TensorType row{DType::f64, Shape{16}};
  const Function f = define_function(graph, "f", {row}, [&](const Values& v) {
    const Output x = identity(v[0]), y = dropout(x, 0.5, 3);
    return Values{y, gradients({y}, {x})[0]};
  });
  const Output x = placeholder(graph, row.dtype, row.shape, "x");
  const Values first = f({x}), second = f({x});
  Session session = Session::local(graph, {.threads = 1});
  const auto got = session.run({first[0], first[1], second[0], second[1]}, {{x, ones(16)}});
  check_close(got[1], got[0], 1e-12);
  check_close(got[3], got[2], 1e-12);
  CHECK_FALSE(same_bits(got[0], got[2]));
}

}  // namespace troupe
