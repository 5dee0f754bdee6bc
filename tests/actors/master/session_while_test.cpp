// Loops in a session: their values, their numbers of iterations, and how they are stopped. The
// tests of gradients are in session_loop_gradient_test.cpp.

#include <thread>

#include "tests/support/engine/local_cluster.hpp"
#include "tests/support/refusal.hpp"
#include "troupe/ops.hpp"
#include "troupe/ops/control_flow.hpp"

namespace troupe {
namespace {

Tensor number(double x) { return Tensor::scalar(x); }
Tensor count(int64_t n) { return Tensor::scalar(n); }

// i = 0, s = 0; while (i < n) { s = s * 0.5 + i * c; i = i + 1; }
struct Sum {
  Graph graph;
  Output n, c;
  std::vector<Output> results;
  explicit Sum(const std::string& body_device = "", WhileOptions options = {}) {
    n = placeholder(graph, DType::i64, {}, "n");
    c = placeholder(graph, DType::f64, {}, "c");
    results =
        while_loop([&](const std::vector<Output>& v) { return less(v[0], n); },
                   [&](const std::vector<Output>& v) {
                     const auto scope = graph.scope({.device = body_device});
                     return std::vector<Output>{v[0] + 1, v[1] * 0.5 + cast(v[0], DType::f64) * c};
                   },
                   {fill(graph, {}, 0, DType::i64), fill(graph, {}, 0, DType::f64)}, options);
  }
  static double value(int64_t n, double c) {
    double s = 0;
    for (int64_t i = 0; i < n; ++i) s = s * 0.5 + static_cast<double>(i) * c;
    return s;
  }
};

void check_sum(Session& session, Sum& sum, std::initializer_list<int64_t> trips) {
  Callable step = session.prepare(sum.results, {sum.n, sum.c});
  for (int64_t n : trips) {
    CAPTURE(n);
    const std::vector<Tensor> got = step({count(n), number(1.5)});
    CHECK(got[0].item<int64_t>() == std::max<int64_t>(n, 0));
    CHECK(got[1].item<double>() == Sum::value(n, 1.5));
  }
}

}  // namespace

TEST_CASE("a loop runs its body as often as its condition holds, which may be never") {
  for (bool passes : {true, false})
    for (int threads : {1, 2, 4}) {
      CAPTURE(passes);
      CAPTURE(threads);
      Sum sum;
      Session session = Session::local(sum.graph, {.threads = threads, .passes = passes});
      check_sum(session, sum, {5, 0, 1, -3, 1000, 7});
    }
}

TEST_CASE("a loop runs 100,000 iterations and leaves no memory behind") {
  Sum sum;
  Session session = Session::local(sum.graph, {.threads = 1});
  check_sum(session, sum, {100'000});
  const int64_t used = session.device_states()[0].used_bytes;
  check_sum(session, sum, {100'000, 10});
  CHECK(session.device_states()[0].used_bytes == used);
}

TEST_CASE("a loop's body stands on other devices and in other processes") {
  for (int64_t in_flight : {1, 3}) {
    CAPTURE(in_flight);
    for (const char* device : {"/device:cpu:1", "/device:shadow:0"}) {
      CAPTURE(device);
      Sum sum(device, {.iterations_in_flight = in_flight});
      Session session =
          Session::local(sum.graph, {.threads = 2, .cpu_devices = 2, .shadow_devices = 1});
      check_sum(session, sum, {5, 0, 1, 200});
    }
  }
  LocalCluster cluster({"/job:worker/task:0", "/job:worker/task:1"});
  Sum sum("/job:worker/task:1");
  Session session = cluster.connect(sum.graph);
  check_sum(session, sum, {5, 0, 1, 200});
}

TEST_CASE("a whole loop stands on an accelerator but for its condition") {
  Graph graph;
  const auto scope = graph.scope({.device = "/device:shadow:0"});
  const Output n = placeholder(graph, DType::f32, {}, "n");
  const std::vector<Output> results =
      while_loop([&](const std::vector<Output>& v) { return less(v[0], n); },
                 [&](const std::vector<Output>& v) {
                   return std::vector<Output>{v[0] + 1, v[1] + v[0]};
                 },
                 {fill(graph, {}, 0), fill(graph, {}, 0)});
  Session session = Session::local(graph, {.threads = 2, .shadow_devices = 1});
  CHECK(session.run({results[1]}, {{n, Tensor::scalar(10.0F)}})[0].item<float>() == 45);
}

TEST_CASE("loops stand in loops, in branches, and around both") {
  for (const char* device : {"", "/device:cpu:1"}) {
    CAPTURE(device);
    Graph graph;
    const Output n = placeholder(graph, DType::i64, {}, "n");
    const Output zero = fill(graph, {}, 0, DType::i64);
    // Sum over i < n of: (i odd) ? sum of j < i of j * i : i
    const std::vector<Output> results = while_loop(
        [&](const std::vector<Output>& v) { return less(v[0], n); },
        [&](const std::vector<Output>& v) {
          const Output add_up = cond(
              equal(v[0] % 2, fill(graph, {}, 1, DType::i64)),
              [&] {
                return while_loop([&](const std::vector<Output>& w) { return less(w[0], v[0]); },
                                  [&](const std::vector<Output>& w) {
                                    const auto scope = graph.scope({.device = std::string(device)});
                                    return std::vector<Output>{w[0] + 1, w[1] + w[0] * v[0]};
                                  },
                                  {zero, zero}, {.name = "inner"})[1];
              },
              [&] { return v[0]; });
          return std::vector<Output>{v[0] + 1, v[1] + add_up};
        },
        {zero, zero});
    Session session = Session::local(graph, {.threads = 2, .cpu_devices = 2});
    for (int64_t trips : {0, 1, 2, 9}) {
      int64_t sum = 0;
      for (int64_t i = 0; i < trips; ++i) {
        if (i % 2 == 0) sum += i;
        for (int64_t j = 0; i % 2 && j < i; ++j) sum += j * i;
      }
      CHECK(session.run({results[1]}, {{n, count(trips)}})[0].item<int64_t>() == sum);
    }
  }
}

TEST_CASE("a loop in a branch that is not taken does not run, wherever its body stands") {
  for (const char* device : {"", "/device:cpu:1"}) {
    Graph graph;
    const Output yes = placeholder(graph, DType::boolean, {}, "yes");
    const Output x = placeholder(graph, DType::i64, {}, "x");
    const Output y = cond(
        yes,
        [&] {
          return while_loop([&](const std::vector<Output>& v) { return less(v[0], x); },
                            [&](const std::vector<Output>& v) {
                              const auto scope = graph.scope({.device = std::string(device)});
                              return std::vector<Output>{v[0] * 2};
                            },
                            {fill(graph, {}, 1, DType::i64)})[0];
        },
        [&] { return x; });
    Session session = Session::local(graph, {.threads = 2, .cpu_devices = 2});
    for (int i = 0; i < 3; ++i) {
      CHECK(session.run({y}, {{yes, Tensor::scalar(true)}, {x, count(100)}})[0].item<int64_t>() ==
            128);
      CHECK(session.run({y}, {{yes, Tensor::scalar(false)}, {x, count(100)}})[0].item<int64_t>() ==
            100);
    }
  }
}

TEST_CASE("variables trade places, stay as they are, and grow if they were said to") {
  Graph graph;
  const Output n = placeholder(graph, DType::i64, {}, "n");
  const Output row = constant(graph, Tensor::of<float>({7}, {1}));
  const std::vector<Output> results =
      while_loop([&](const std::vector<Output>& v) { return less(v[0], n); },
                 [&](const std::vector<Output>& v) {
                   return std::vector<Output>{v[0] + 1, v[2], v[1], v[3], concat({v[4], row}, 0)};
                 },
                 {fill(graph, {}, 0, DType::i64), fill(graph, {}, 1), fill(graph, {}, 2),
                  fill(graph, {}, 3), row},
                 {.shapes = {{}, {}, {}, {}, {-1}}});
  Session session = Session::local(graph);
  const std::vector<Tensor> got = session.run(results, {{n, count(3)}});
  CHECK(got[1].item<float>() == 2);
  CHECK(got[2].item<float>() == 1);
  CHECK(got[3].item<float>() == 3);
  CHECK(same_bits(got[4], Tensor::of<float>({7, 7, 7, 7}, {4})));
}

TEST_CASE(
    "a loop without exit ends when its run is cancelled or its time is over, and says where") {
  for (const char* device : {"", "/device:cpu:1"}) {
    CAPTURE(device);
    Graph graph;
    const Output yes = constant(graph, Tensor::scalar(true));
    const std::vector<Output> results = while_loop(
        [&](const std::vector<Output>&) { return yes; },
        [&](const std::vector<Output>& v) {
          const auto scope = graph.scope({.device = std::string(device)});
          return std::vector<Output>{v[0] + 1};
        },
        {fill(graph, {}, 0, DType::i64)}, {.iterations_in_flight = 1, .name = "endless"});
    Session session = Session::local(graph, {.threads = 2, .cpu_devices = 2});
    Cancellation cancel;
    std::thread stopping([&] { cancel.cancel(); });
    const Refusal cancelled = refusal_of([&] { session.run(results, {}, {.cancel = &cancel}); });
    stopping.join();
    CHECK(cancelled.code == Errc::cancelled);
    const Refusal late =
        refusal_of([&] { session.run(results, {}, {.timeout = std::chrono::milliseconds(500)}); });
    CHECK(late.code == Errc::timeout);
    if (!*device) has(late.text, "the loop endless/While was in iteration ");
  }
}

TEST_CASE("what a loop cannot be is refused with the reason") {
  Graph graph;
  const Output x = fill(graph, {2}, 1), zero = fill(graph, {}, 0);
  using Values = std::vector<Output>;
  const auto positive = [&](const Values& v) { return greater(v[0], zero); };
  const auto same = [](const Values& v) { return v; };
  check_invalid([&] { while_loop(positive, same, {}); }, "wants at least one variable");
  check_invalid([&] { while_loop([](const Values& v) { return v[0]; }, same, {zero}); },
                "wants a bool scalar as its condition, got f32[]");
  check_invalid([&] { while_loop([&](const Values&) { return greater(x, zero); }, same, {zero}); },
                "wants a bool scalar as its condition, got bool[2]");
  check_invalid(
      [&] {
        while_loop(positive, [](const Values& v) { return Values{v[0], v[0]}; }, {zero});
      },
      "returns 2 values for 1 variables");
  check_invalid(
      [&] {
        while_loop(positive, [](const Values& v) { return Values{cast(v[0], DType::f64)}; },
                   {zero});
      },
      "variable 0 is f32[], but the body makes f64[]");
  check_invalid(
      [&] {
        while_loop(positive,
                   [](const Values& v) {
                     return Values{v[0], concat({v[1], v[1]}, 0)};
                   },
                   {zero, x});
      },
      "say with WhileOptions::shapes which sizes change");
  check_invalid([&] { while_loop(positive, same, {zero}, {.iterations_in_flight = 0}); },
                "wants 1 to 1024 iterations in flight");
  Output inside;
  const Output y =
      while_loop(positive, [&](const Values& v) { return Values{inside = v[0] - 1}; }, {zero})[0];
  check_invalid([&] { (void)(inside * 2); }, "return it from the branch or the body");
  Session session = Session::local(graph);
  check_invalid([&] { session.run({inside}); }, "is inside the Branch node while");
  CHECK(session.run({y})[0].item<float>() == 0);
}

TEST_CASE("a body whose value turns out to have another shape ends the step with its name") {
  Graph graph;
  const Output x = placeholder(graph, DType::f32, {-1}, "x");
  const Output one = fill(graph, {1}, 1);
  const std::vector<Output> results =
      while_loop([&](const std::vector<Output>& v) { return less(v[0], fill(graph, {}, 3)); },
                 [&](const std::vector<Output>& v) {
                   return std::vector<Output>{v[0] + 1, x};
                 },
                 {fill(graph, {}, 0), one});
  Session session = Session::local(graph);
  CHECK(session.run({results[1]}, {{x, Tensor::of<float>({5}, {1})}})[0].size() == 1);
  check_invalid(
      [&] {
        session.run({results[1]}, {{x, Tensor::of<float>({5, 6}, {2})}});
      },
      "the body made f32[2] of its variable while/variable_1, which is f32[1]");
}

}  // namespace troupe
