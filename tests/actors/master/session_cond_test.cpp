// Branches in a session: which branch runs, the effects of the others, across devices and
// processes; and gradients of branches.

#include <cmath>

#include "tests/support/engine/local_cluster.hpp"
#include "tests/support/refusal.hpp"
#include "troupe/ops.hpp"
#include "troupe/ops/control_flow.hpp"
#include "troupe/ops/parameters.hpp"

namespace troupe {
namespace {

Tensor number(double x) { return Tensor::scalar(x); }
Tensor numbers(std::initializer_list<double> xs) {
  return Tensor::of<double>(xs, {static_cast<int64_t>(xs.size())});
}
Output number_input(Graph& graph, std::string_view name) {
  return placeholder(graph, DType::f64, {}, name);
}

// f(x) = x > 0 ? x * x * c : x < -1 ? c / x : 3 x, written with two conds, one inside the other.
struct Nested {
  Graph graph;
  Output x, c, y;
  explicit Nested(const std::string& then = "", const std::string& otherwise = "") {
    x = number_input(graph, "x");
    c = number_input(graph, "c");
    y = cond(
        greater(x, fill(graph, {}, 0, DType::f64)),
        [&] {
          const auto scope = graph.scope({.device = then});
          return x * x * c;
        },
        [&] {
          return cond(
              greater(fill(graph, {}, -1, DType::f64), x), [&] { return c / x; },
              [&] {
                const auto scope = graph.scope({.device = otherwise});
                return x * 3;
              });
        });
  }
  static double value(double x, double c) { return x > 0 ? x * x * c : x < -1 ? c / x : 3 * x; }
  static double dx(double x, double c) { return x > 0 ? 2 * x * c : x < -1 ? -c / (x * x) : 3; }
  static double dc(double x, double) { return x > 0 ? x * x : x < -1 ? 1 / x : 0; }
  static double dxdx(double x, double c) {
    return x > 0 ? 2 * c : x < -1 ? 2 * c / (x * x * x) : 0;
  }
};

const std::vector<double> kPoints = {2.5, -3, -0.5};

void check_nested(Session& session, Nested& n) {
  const std::vector<Output> d = gradients({n.y}, {n.x, n.c});
  const std::vector<Output> dd = gradients({d[0]}, {n.x});
  Callable step = session.prepare({n.y, d[0], d[1], dd[0]}, {n.x, n.c});
  for (double x : kPoints) {
    CAPTURE(x);
    const std::vector<Tensor> got = step({number(x), number(7)});
    CHECK(got[0].item<double>() == doctest::Approx(Nested::value(x, 7)));
    CHECK(got[1].item<double>() == doctest::Approx(Nested::dx(x, 7)));
    CHECK(got[2].item<double>() == doctest::Approx(Nested::dc(x, 7)));
    CHECK(got[3].item<double>() == doctest::Approx(Nested::dxdx(x, 7)));
  }
}

}  // namespace

TEST_CASE("a cond gives what its branch gives, and the derivatives of that") {
  for (bool passes : {true, false})
    for (int threads : {1, 2, 4}) {
      CAPTURE(passes);
      CAPTURE(threads);
      Nested n;
      Session session = Session::local(n.graph, {.threads = threads, .passes = passes});
      check_nested(session, n);
    }
}

TEST_CASE("branches of a cond stand on other devices and in other processes") {
  {
    Nested n("/device:cpu:1", "/device:shadow:0");
    Session session =
        Session::local(n.graph, {.threads = 2, .cpu_devices = 2, .shadow_devices = 1});
    check_nested(session, n);
  }
  LocalCluster cluster({"/job:worker/task:0", "/job:worker/task:1"});
  Nested n("/job:worker/task:0", "/job:worker/task:1");
  Session session = cluster.connect(n.graph);
  check_nested(session, n);
}

TEST_CASE("a branch that is not taken does not run") {
  Graph graph;
  const Output x = number_input(graph, "x");
  const Output zero = fill(graph, {}, 0, DType::f64);
  const Output y = cond(
      greater(x, zero), [&] { return check_finite(log(x), "a logarithm"); },
      [&] { return x + random_uniform(graph, {}, 5, 6, 1, DType::f64); });
  Session session = Session::local(graph);
  CHECK(session.run({y}, {{x, number(1)}})[0].item<double>() == 0);
  const double got = session.run({y}, {{x, number(-1)}})[0].item<double>();
  CHECK(got >= 4);
  CHECK(got < 5);
}

TEST_CASE("a branch that a constant does not choose does not run, with the passes and without") {
  for (const bool passes : {false, true}) {
    CAPTURE(passes);
    Graph graph;
    const Queue queue = make_queue(graph, {{DType::f64, {}}});  // stays empty
    const Output no = fill(graph, {}, 0, DType::boolean), two = fill(graph, {}, 2, DType::i32);
    const Output seven = fill(graph, {}, 7, DType::f64);
    const auto waits = [&] { return dequeue(queue)[0]; };
    const Output y = cond(no, waits, [&] { return seven + 1; });
    const Output z = switch_case(
        two, {[&] { return std::vector{waits()}; }, [&] { return std::vector{waits()}; },
              [&] { return std::vector{seven + 2}; }})[0];
    Session session = Session::local(graph, {.threads = 1, .passes = passes});
    RunOptions soon{.timeout = std::chrono::seconds(10)};
    const std::vector<Tensor> got = session.run({y, z}, {}, soon);
    CHECK(got[0].item<double>() == 8);
    CHECK(got[1].item<double>() == 9);
  }
}

TEST_CASE("switch_case runs the branch of its index, the last one for an index that none has") {
  Graph graph;
  const Output index = placeholder(graph, DType::i32, {}, "index");
  const Output x = placeholder(graph, DType::f64, {3}, "x");
  const std::vector<Output> y =
      switch_case(index, {[&] {
                            return std::vector<Output>{x, x + 1};
                          },
                          [&] {
                            return std::vector<Output>{x * 2, slice(x, {0}, {2})};
                          },
                          [&] {
                            return std::vector<Output>{x * x, slice(x, {0}, {1})};
                          }});
  CHECK(y[1].shape() == Shape{-1});
  const Output dx = gradients({reduce_sum(y[0]), reduce_sum(y[1])}, {x})[0];
  Session session = Session::local(graph);
  const Tensor fed = numbers({1, 2, 3});
  const auto run = [&](int32_t i) {
    return session.run({y[0], y[1], dx}, {{index, Tensor::scalar(i)}, {x, fed}});
  };
  CHECK(same_bits(run(0)[0], fed));
  CHECK(same_bits(run(0)[2], numbers({2, 2, 2})));
  CHECK(same_bits(run(1)[1], numbers({1, 2})));
  CHECK(same_bits(run(1)[2], numbers({3, 3, 2})));
  for (int32_t i : {2, 3, -1}) {
    CHECK(same_bits(run(i)[0], numbers({1, 4, 9})));
    CHECK(same_bits(run(i)[1], numbers({1})));
    CHECK(same_bits(run(i)[2], numbers({3, 4, 6})));
  }
}

TEST_CASE("what a branch does without a value can be waited for") {
  Graph graph;
  const Output x = number_input(graph, "x");
  const std::vector<Output> done = cond(
      greater(x, fill(graph, {}, 0, DType::f64)),
      [&] { return std::vector<Output>{group(graph, {check_finite(log(x), "a logarithm")})}; },
      [&] { return std::vector<Output>{group(graph, {check_finite(sqrt(x), "a root")})}; });
  Session session = Session::local(graph);
  CHECK(session.run(done, {{x, number(1)}})[0].item<bool>());
  CHECK_THROWS_WITH_AS(session.run(done, {{x, number(-1)}}), doctest::Contains("a root"), Error);
}

TEST_CASE("what is inside a branch cannot be reached from outside, and branches must be alike") {
  Graph graph;
  const Output x = number_input(graph, "x"), yes = placeholder(graph, DType::boolean, {}, "yes");
  Output inside;
  const Output y = cond(
      yes, [&] { return inside = x * 2; }, [&] { return x; });
  Session session = Session::local(graph);
  check_invalid(
      [&] {
        session.run({inside}, {{x, number(1)}, {yes, Tensor::scalar(true)}});
      },
      "is inside the Branch node cond/branch1");
  check_invalid([&] { session.run({y}, {{inside, number(1)}}); }, "is inside the Branch node");
  check_invalid([&] { (void)(inside + 1); }, "return it from the branch or the body");
  check_invalid(
      [&] { graph.add({.op = "Identity", .inputs = {x}, .control_inputs = {inside.node}}); },
      "is to run after the Multiply node");
  const auto same = [&] { return x; };
  check_invalid([&] { cond(x, same, same); }, "wants a bool scalar");
  check_invalid([&] { cond(placeholder(graph, DType::boolean, {2}), same, same); },
                "wants a bool scalar as its predicate, got bool[2]");
  check_invalid([&] { cond(yes, same, [&] { return cast(x, DType::f32); }); },
                "value 0 of branch 0 is f32[], of branch 1 f64[]");
  const auto one = [&] { return std::vector<Output>{x}; };
  const auto two = [&] { return std::vector<Output>{x, x}; };
  check_invalid([&] { cond(yes, two, one); }, "branch 0 returns 1 values, branch 1 2");
  check_invalid([&] { switch_case(x, {one}); }, "wants an i32 or i64");
  CHECK(session.run({y}, {{x, number(4)}, {yes, Tensor::scalar(true)}})[0].item<double>() == 8);
}

TEST_CASE("a value that no branch has made cannot be fetched, and the next step runs") {
  for (const char* device : {"", "/device:cpu:1"}) {
    Graph graph;
    const Output yes = placeholder(graph, DType::boolean, {}, "yes");
    Output inside;
    cond(
        yes, [&] { return inside = fill(graph, {}, 2, DType::f64) + 1; },
        [&] { return fill(graph, {}, 0, DType::f64); });
    const auto scope = graph.scope({.device = std::string(device)});
    const Output half = graph.add({.op = "Merge", .inputs = {inside}, .name = "half"});
    Session session = Session::local(graph, {.threads = 2, .cpu_devices = 2});
    for (int i = 0; i < 2; ++i) {
      check_invalid(
          [&] {
            session.run({half}, {{yes, Tensor::scalar(false)}});
          },
          "the Merge node half made at");
      CHECK(session.run({half}, {{yes, Tensor::scalar(true)}})[0].item<double>() == 3);
    }
  }
}

TEST_CASE("parameters in branches are read once a step, whichever branch reads them") {
  Graph graph;
  const Output yes = placeholder(graph, DType::boolean, {}, "yes");
  const Output initial = fill(graph, {2}, 3, DType::f64);
  const Output y = cond(
      yes, [&] { return parameter("w", initial) * 2; }, [&] { return parameter("w", initial); });
  Session session = Session::local(graph);
  CHECK(same_bits(session.run({y}, {{yes, Tensor::scalar(true)}})[0], numbers({6, 6})));
  CHECK(same_bits(session.run({y}, {{yes, Tensor::scalar(false)}})[0], numbers({3, 3})));
}

}  // namespace troupe
