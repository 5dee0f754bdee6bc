// Gradients of gradients of loops, and their gradients: against central differences of the
// gradients, and against the same loop unrolled.

#include <cmath>
#include <functional>

#include "tests/support/central_differences.hpp"
#include "tests/support/engine/local_cluster.hpp"
#include "tests/support/engine/recursion.hpp"

namespace troupe {
namespace {

Tensor numbers(std::vector<double> values, Shape shape) {
  return Tensor::of<double>(std::move(values), shape);
}

// A penalty on the gradients of a loss: s = the sum of the squares of dL/dx over all xs, and ds/dx.
struct Slopes {
  Graph graph;
  Output n = placeholder(graph, DType::i64, {}, "n");
  std::vector<Output> xs, d, dd;
  Output s;
  // `loss` adds the placeholders xs and returns the loss.
  explicit Slopes(const std::function<Output(Slopes&)>& loss) {
    const Output y = loss(*this);
    d = gradients({y}, xs);
    s = penalty(d);
    dd = gradients({s}, xs);
  }
  Output x(Shape shape) {
    return xs.emplace_back(placeholder(graph, DType::f64, shape, detail::concat("x", xs.size())));
  }
  static Output penalty(const std::vector<Output>& d) {
    Output sum = reduce_sum(square(d[0]));
    for (size_t i = 1; i < d.size(); ++i) sum = sum + reduce_sum(square(d[i]));
    return sum;
  }
  std::vector<Tensor> run(Session& session, const std::vector<Output>& fetches, int64_t trips,
                          const std::vector<Tensor>& at) const {
    std::vector<std::pair<Output, Tensor>> feeds = {{n, count(trips)}};
    for (size_t i = 0; i < xs.size(); ++i) feeds.emplace_back(xs[i], at[i]);
    return session.run(fetches, feeds, {.seed = 1});
  }
  void check(Session& session, int64_t trips, const std::vector<Tensor>& at) const {
    check_slopes(
        [&](const std::vector<Tensor>& x) { return run(session, {s}, trips, x)[0].item<double>(); },
        at, run(session, dd, trips, at));
  }
};

// h = tanh(h w + u) + h sin(u), r = r + sum(h * h) / (i + 1), for i < n.
Values recurrent_body(const Values& v, const Output& w, const Output& u) {
  const Output h = tanh(matmul(v[1], w) + u) + v[1] * sin(u);
  return {v[0] + 1, h, v[2] + reduce_sum(h * h) / cast(v[0] + 1, DType::f64)};
}

Output recurrent(Slopes& s, int64_t written_out, const WhileOptions& options = {},
                 const std::string& device = "") {
  const Output h0 = s.x({1, 3}), w = s.x({3, 3}), u = s.x({1, 3});
  Values v = {whole(s.graph, 0), h0, fill(s.graph, {}, 0, DType::f64)};
  const auto body = [&](const Values& now) {
    const auto scope = s.graph.scope({.device = device});
    return recurrent_body(now, w, u);
  };
  if (written_out >= 0)
    for (int64_t i = 0; i < written_out; ++i) v = body(v);
  else
    v = while_loop([&](const Values& now) { return less(now[0], s.n); }, body, v, options);
  return v[2] + reduce_sum(v[1]);
}

std::vector<Tensor> point() {
  return {numbers({0.1, -0.4, 0.3}, {1, 3}),
          numbers({0.5, -0.2, 0.1, 0.3, 0.4, -0.6, 0.2, 0.1, 0.7}, {3, 3}),
          numbers({0.05, 0.1, -0.2}, {1, 3})};
}

}  // namespace

TEST_CASE("second derivatives of a loop are those of the loop written out") {
  constexpr int64_t kTrips = 4;
  const Slopes plain([](Slopes& s) { return recurrent(s, kTrips); });
  Session written_out = Session::local(const_cast<Graph&>(plain.graph), {.threads = 1});
  const std::vector<Tensor> want = plain.run(written_out, plain.dd, kTrips, point());
  for (bool recompute : {false, true})
    for (const char* device : {"", "/device:cpu:1"})
      for (int threads : {1, 4}) {
        CAPTURE(recompute);
        CAPTURE(device);
        CAPTURE(threads);
        Slopes loop([&](Slopes& s) { return recurrent(s, -1, {.recompute = recompute}, device); });
        Session session = Session::local(
            loop.graph, {.threads = threads, .cpu_devices = 2, .passes = threads == 1});
        const std::vector<Tensor> got = loop.run(session, loop.dd, kTrips, point());
        for (size_t i = 0; i < want.size(); ++i) check_close(got[i], want[i]);
      }
}

TEST_CASE("second derivatives of a loop agree with central differences") {
  Slopes loop([](Slopes& s) { return recurrent(s, -1); });
  Session session = Session::local(loop.graph, {.threads = 1});
  for (int64_t trips : {0, 1, 5}) {
    CAPTURE(trips);
    loop.check(session, trips, point());
  }
}

TEST_CASE("second derivatives of a loop in another process are those of this one") {
  LocalCluster cluster({"/job:worker/task:0", "/job:worker/task:1"});
  Slopes there([](Slopes& s) { return recurrent(s, -1, {}, "/job:worker/task:1"); });
  Session session = cluster.connect(there.graph);
  Slopes here([](Slopes& s) { return recurrent(s, -1); });
  Session local = Session::local(here.graph, {.threads = 1});
  const std::vector<Tensor> got = there.run(session, there.dd, 3, point()),
                            want = here.run(local, here.dd, 3, point());
  for (size_t i = 0; i < want.size(); ++i) CHECK(same_bits(got[i], want[i]));
}

TEST_CASE("a loop whose number of iterations depends on values has second derivatives") {
  Slopes loop([](Slopes& s) {
    const Output x = s.x({}), c = s.x({});
    const Output end = fill(s.graph, {}, 8, DType::f64);
    return while_loop([&](const Values& v) { return less(v[0], end); },
                      [&](const Values& v) { return Values{v[0] * c + sin(v[0]) + 0.5}; }, {x})[0];
  });
  Session session = Session::local(loop.graph, {.threads = 1});
  loop.check(session, 0, {number(1.1), number(1.7)});
  loop.check(session, 0, {number(0.3), number(1.2)});
}

TEST_CASE("a third derivative of a loop is right") {
  Graph graph;
  const Output x = placeholder(graph, DType::f64, {}, "x");
  const Output n = placeholder(graph, DType::i64, {}, "n");
  const Output y = counted_loop(
      n, {sin(x)}, {}, [&](const Values& v) { return Values{v[1] * x}; })[1];  // sin(x) x^n
  const Output d1 = gradients({y}, {x})[0], d2 = gradients({d1}, {x})[0],
               d3 = gradients({d2}, {x})[0];
  Session session = Session::local(graph, {.threads = 1});
  const double a = 0.7, s = std::sin(a), c = std::cos(a);
  const auto got = session.run({d1, d2, d3}, {{x, number(a)}, {n, count(4)}});
  CHECK(got[0].item<double>() == doctest::Approx(c * std::pow(a, 4) + 4 * s * std::pow(a, 3)));
  CHECK(got[1].item<double>() ==
        doctest::Approx(-s * std::pow(a, 4) + 8 * c * std::pow(a, 3) + 12 * s * a * a));
  CHECK(got[2].item<double>() == doctest::Approx(-c * std::pow(a, 4) - 12 * s * std::pow(a, 3) +
                                                 36 * c * a * a + 24 * s * a));
}

TEST_CASE("second derivatives pass through conds in loops, loops in loops, and loops in conds") {
  for (bool recompute : {false, true}) {
    CAPTURE(recompute);
    const WhileOptions options{.recompute = recompute};
    // For i < n: x = i odd ? sin(x) * c : (for j < i: x = sin(x * c) + x * x / 4)
    Slopes loop([&](Slopes& s) {
      const Output x = s.x({}), c = s.x({});
      const auto inner = [&](const Values& v) {
        return counted_loop(v[0], {v[1]}, options, [&](const Values& w) {
          return Values{sin(w[1] * c) + w[1] * w[1] / 4};
        })[1];
      };
      return cond(
          greater(s.n, whole(s.graph, 0)),
          [&] {
            return while_loop([&](const Values& v) { return less(v[0], s.n); },
                              [&](const Values& v) {
                                return Values{v[0] + 1, cond(
                                                            equal(v[0] % 2, whole(s.graph, 1)),
                                                            [&] { return sin(v[1]) * c; },
                                                            [&] { return inner(v); })};
                              },
                              {whole(s.graph, 0), x}, options)[1];
          },
          [&] { return x * x * c; });
    });
    Session session = Session::local(loop.graph, {.threads = 2});
    for (int64_t trips : {0, 1, 2, 5}) {
      CAPTURE(trips);
      loop.check(session, trips, {number(0.8), number(1.3)});
    }
  }
}

TEST_CASE("second derivatives of a scan agree with central differences") {
  for (bool recompute : {false, true})
    for (int64_t rows : {4, -1}) {
      CAPTURE(recompute);
      CAPTURE(rows);
      Slopes loop([&](Slopes& s) {
        const Output xs = s.x({rows, 2}), w = s.x({2, 2});
        const Scanned scanned = scan(
            [&](const Values& carry, const Values& row) {
              const Output h = tanh(matmul(carry[0], w) + reshape(row[0], {1, 2}));
              return Scanned{{h}, {h * h}};
            },
            {fill(s.graph, {1, 2}, 0.2, DType::f64)}, {xs},
            {.recompute = recompute, .name = "scan"});
        return reduce_sum(sin(scanned.rows[0])) + reduce_sum(scanned.carry[0]);
      });
      Session session = Session::local(loop.graph, {.threads = 1});
      loop.check(session, 0,
                 {numbers({0.1, -0.4, 0.3, 0.2, -0.6, 0.5, 0.7, -0.1}, {4, 2}),
                  numbers({0.5, -0.2, 0.1, 0.9}, {2, 2})});
    }
}

TEST_CASE("dropout in a loop has the same masks in second derivatives") {
  Slopes loop([&](Slopes& s) {
    const Output x = s.x({1, 6}), w = s.x({6, 6});
    return reduce_sum(counted_loop(s.n, {x}, {}, [&](const Values& v) {
      return Values{dropout(tanh(matmul(v[1], w)), 0.3, 5)};
    })[1]);
  });
  std::vector<double> w;
  for (int i = 0; i < 36; ++i) w.push_back(0.3 * (i % 5) - 0.5);
  Session session = Session::local(loop.graph, {.threads = 1});
  loop.check(session, 3, {numbers({0.1, -0.4, 0.3, 0.2, -0.6, 0.5}, {1, 6}), numbers(w, {6, 6})});
}

TEST_CASE("a loop that descends by the gradient of a loop has a gradient") {
  // x descends n times: x = x - rate * dL/dx, L by a loop of its own.
  for (bool recompute : {false, true}) {
    CAPTURE(recompute);
    Graph graph;
    const Output n = placeholder(graph, DType::i64, {}, "n");
    const Output x0 = placeholder(graph, DType::f64, {}, "x0");
    const Output rate = placeholder(graph, DType::f64, {}, "rate");
    const WhileOptions options{.recompute = recompute};
    const Output end =
        while_loop([&](const Values& v) { return less(v[0], n); },
                   [&](const Values& v) {
                     const Output x = identity(v[1]);
                     const Output loss = counted_loop(v[0] + 2, {x}, options, [&](const Values& w) {
                       return Values{sin(w[1]) + w[1] * x / 3};
                     })[1];
                     return Values{v[0] + 1, v[1] - gradients({loss}, {x})[0] * rate};
                   },
                   {whole(graph, 0), x0}, options)[1];
    const Values d = gradients({end}, {x0, rate});
    Session session = Session::local(graph, {.threads = 1});
    const auto run = [&](const Output& fetch, const std::vector<Tensor>& at, int64_t trips) {
      return session.run({fetch}, {{n, count(trips)}, {x0, at[0]}, {rate, at[1]}})[0];
    };
    const std::vector<Tensor> at = {number(0.9), number(0.15)};
    for (int64_t trips : {1, 3})
      check_slopes([&](const std::vector<Tensor>& v) { return run(end, v, trips).item<double>(); },
                   at, {run(d[0], at, trips), run(d[1], at, trips)});
  }
}

TEST_CASE("second derivatives pass through loops in functions, copied and recursive ones") {
  for (bool recursive : {false, true}) {
    CAPTURE(recursive);
    Slopes slopes([&](Slopes& s) {
      const Output x = s.x({}), c = s.x({});
      Function f = declare_function(s.graph, "f", {kNumber, kCount}, {kNumber});
      f.define([&](const Values& v) {
        const Output y = counted_loop(
            v[1], {v[0]}, {}, [&](const Values& w) { return Values{sin(w[1] * c) + w[1]}; })[1];
        if (!recursive) return Values{y};
        return Values{cond(
            less_equal(v[1], whole(s.graph, 1)), [&] { return y; },
            [&] {
              return f({y, v[1] - 1})[0] * y;
            })};
      });
      return f({x, s.n})[0];
    });
    Session session = Session::local(slopes.graph, {.threads = 1});
    slopes.check(session, 3, {number(0.7), number(1.2)});
  }
}

TEST_CASE("a function whose body takes the gradient of a loop is called with other shapes") {
  Graph graph;
  const Function f =
      define_function(graph, "f", {{DType::f64, Shape{-1}}, kCount}, [&](const Values& v) {
        const Output x = identity(v[0]);
        const Output y =
            counted_loop(v[1], {x}, {}, [&](const Values& w) { return Values{w[1] * x}; })[1];
        return Values{gradients({y}, {x})[0]};  // of x^(n + 1)
      });
  const Output x = placeholder(graph, DType::f64, {3}, "x");
  const Output d = f({x, whole(graph, 2)})[0], dd = gradients({d}, {x})[0];
  Session session = Session::local(graph, {.threads = 1});
  const auto got = session.run({d, dd}, {{x, numbers({1, 2, -3}, {3})}});
  check_close(got[0], numbers({3, 12, 27}, {3}));
  check_close(got[1], numbers({6, 12, -18}, {3}));
}

}  // namespace troupe
