// Gradients of loops: against central differences, and against the same loop unrolled.
#include "tests/support/engine/small_network.hpp"
#include "tests/support/refusal.hpp"

namespace troupe {
namespace {

// A small recurrent network: h = tanh(h w + u), r = r + sum(h * h) / (i + 1), for i < n.
struct Recurrent : SmallNetwork {
  std::string device;
  explicit Recurrent(int64_t written_out, std::string device_in = "", WhileOptions options = {})
      : SmallNetwork(Tensor::of<double>({0.05, 0.1, -0.2}, {1, 3})), device(std::move(device_in)) {
    const Values begin = {fill(graph, {}, 0, DType::i64), h0, fill(graph, {}, 0, DType::f64)};
    Values v = begin;
    if (written_out >= 0)
      for (int64_t i = 0; i < written_out; ++i) v = body(v);
    else
      v = while_loop([&](const Values& now) { return less(now[0], n); },
                     [&](const Values& now) { return body(now); }, begin, options);
    differentiate(v[2] + reduce_sum(v[1]));
  }
  Values body(const Values& v) {
    const auto scope = graph.scope({.device = device});
    const Output h = tanh(matmul(v[1], w) + u);
    return {v[0] + 1, h, v[2] + reduce_sum(h * h) / cast(v[0] + 1, DType::f64)};
  }
};

}  // namespace

TEST_CASE("the gradients of a loop are those of the loop written out") {
  for (bool recompute : {false, true})
    for (bool passes : {true, false})
      for (int threads : {1, 4}) {
        CAPTURE(recompute);
        CAPTURE(passes);
        CAPTURE(threads);
        Recurrent loop(-1, "", {.recompute = recompute});
        Session session = Session::local(loop.graph, {.threads = threads, .passes = passes});
        check_written_out(session, loop, {0, 1, 4});
      }
}

TEST_CASE("the gradients of a loop whose body is elsewhere are those of the loop written out") {
  for (const char* device : {"/device:cpu:1", "/device:shadow:0"}) {
    CAPTURE(device);
    Recurrent loop(-1, device);
    Session session =
        Session::local(loop.graph, {.threads = 2, .cpu_devices = 2, .shadow_devices = 1});
    check_written_out(session, loop, {0, 1, 4});
  }
  check_written_out_remotely<Recurrent>({0, 1, 4});
}

TEST_CASE("the gradients of a loop agree with central differences") {
  check_network_slopes<Recurrent>();
}

TEST_CASE("gradients pass through conds in loops, loops in loops, and loops in conds") {
  for (bool recompute : {false, true})
    for (const char* device : {"", "/device:cpu:1"}) {
      CAPTURE(recompute);
      CAPTURE(device);
      Graph graph;
      const Output n = placeholder(graph, DType::i64, {}, "n");
      const Output x = placeholder(graph, DType::f64, {}, "x");
      const Output c = placeholder(graph, DType::f64, {}, "c");
      const Output zero = fill(graph, {}, 0, DType::i64);
      const WhileOptions options{.recompute = recompute};
      // For i < n: x = i odd ? x * c : (for j < i: x = sin(x) * c + x)
      const Output y = cond(
          greater(n, zero),
          [&] {
            return while_loop(
                [&](const Values& v) { return less(v[0], n); },
                [&](const Values& v) {
                  const Output next = cond(
                      equal(v[0] % 2, fill(graph, {}, 1, DType::i64)), [&] { return v[1] * c; },
                      [&] {
                        return while_loop([&](const Values& w) { return less(w[0], v[0]); },
                                          [&](const Values& w) {
                                            const auto scope =
                                                graph.scope({.device = std::string(device)});
                                            return Values{w[0] + 1, sin(w[1]) * c + w[1]};
                                          },
                                          {zero, v[1]}, options)[1];
                      });
                  return Values{v[0] + 1, next};
                },
                {zero, x}, options)[1];
          },
          [&] { return x * x; });
      const Values d = gradients({y}, {x, c});
      Session session = Session::local(graph, {.threads = 2, .cpu_devices = 2});
      Callable step = session.prepare({y, d[0], d[1]}, {n, x, c});
      const auto at = [&](int64_t trips, double x0, double c0) {
        return step({count(trips), Tensor::scalar(x0), Tensor::scalar(c0)});
      };
      constexpr double kStep = 1e-6;
      for (int64_t trips : {0, 1, 2, 5}) {
        CAPTURE(trips);
        const std::vector<Tensor> got = at(trips, 0.3, 0.7);
        const auto difference = [&](double dx, double dc) {
          return (at(trips, 0.3 + dx, 0.7 + dc)[0].item<double>() -
                  at(trips, 0.3 - dx, 0.7 - dc)[0].item<double>()) /
                 (2 * kStep);
        };
        CHECK(got[1].item<double>() == doctest::Approx(difference(kStep, 0)).epsilon(1e-6));
        CHECK(got[2].item<double>() == doctest::Approx(difference(0, kStep)).epsilon(1e-6));
      }
    }
}

TEST_CASE("a loop on the way that has no part in a gradient is left alone") {
  Graph graph;
  const Output n = placeholder(graph, DType::i64, {}, "n");
  const Output x = placeholder(graph, DType::f64, {}, "x");
  const Values v = while_loop([&](const Values& now) { return less(now[0], n); },
                              [&](const Values& now) {
                                return Values{now[0] + 1, floor(now[1]), now[2] * x};
                              },
                              {fill(graph, {}, 0, DType::i64), fill(graph, {}, 1.5, DType::f64),
                               fill(graph, {}, 1, DType::f64)});
  const Values d = gradients({v[2]}, {x, n});
  CHECK_FALSE(d[1].defined());
  Session session = Session::local(graph);
  CHECK(session.run({d[0]}, {{n, count(3)}, {x, Tensor::scalar(2.0)}})[0].item<double>() == 12);
}

TEST_CASE("a body may itself take gradients: Newton's method finds a root") {
  Graph graph;
  const Output a = placeholder(graph, DType::f64, {}, "a");
  const Output close = fill(graph, {}, 1e-14, DType::f64);
  const Output root =
      while_loop([&](const Values& v) { return greater(abs(v[0] * v[0] - a), close * a); },
                 [&](const Values& v) {
                   const Output x = identity(v[0]), f = x * x - a;
                   return Values{x - f / gradients({f}, {x})[0]};
                 },
                 {a})[0];
  Session session = Session::local(graph);
  CHECK(session.run({root}, {{a, Tensor::scalar(2.0)}})[0].item<double>() ==
        doctest::Approx(1.4142135623730951));
}

TEST_CASE("gradients inside a body reach its variables, but nothing outside the loop") {
  Graph graph;
  const Output n = fill(graph, {}, 3, DType::f64), x = fill(graph, {}, 2, DType::f64);
  std::string text;
  const Output y = while_loop([&](const Values& v) { return less(v[0], n); },
                              [&](const Values& v) {
                                const Output f = v[1] * v[1] * x;
                                text = refusal_of([&] { gradients({f}, {x}); }).text;
                                return Values{v[0] + 1, gradients({f}, {v[1]})[0]};
                              },
                              {fill(graph, {}, 0, DType::f64), fill(graph, {}, 1, DType::f64)})[1];
  has(text, "wants xs that are inside, too");
  Session session = Session::local(graph);
  CHECK(session.run({y})[0].item<double>() == 64);  // three times 2 v x
}

}  // namespace troupe
