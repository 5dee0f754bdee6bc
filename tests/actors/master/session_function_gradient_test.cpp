// Gradients of function calls: against closed forms, central differences, and the same computation
// without functions.

#include <cmath>

#include "tests/support/engine/small_network.hpp"
#include "tests/support/refusal.hpp"
#include "tests/support/within.hpp"

namespace troupe {
namespace {

// power(x, n) = n <= 0 ? 1 : x * power(x, n - 1)
Function make_power(Graph& graph) {
  Function power = declare_function(graph, "power", {kNumber, kCount}, {kNumber});
  power.define([&](const Values& v) {
    return Values{cond(
        less_equal(v[1], whole(graph, 0)), [&] { return fill(graph, {}, 1, DType::f64); },
        [&] {
          return v[0] * power({v[0], v[1] - 1})[0];
        })};
  });
  return power;
}

// h(n) = n <= 0 ? h0 : tanh(h(n - 1) w + h(n - 2) * u), where w and u are outside the function.
struct Tree : SmallNetwork {
  explicit Tree(int64_t written_out, const std::string& device = "") : SmallNetwork(number(0.6)) {
    if (written_out >= 0) {
      differentiate(reduce_sum(plain(written_out) * h0));
      return;
    }
    const TensorType row{DType::f64, Shape{1, 3}};
    Function h = declare_function(graph, "h", {row, kCount}, {row});
    h.define([&](const Values& v) {
      return Values{cond(
          less_equal(v[1], whole(graph, 0)), [&] { return v[0]; },
          [&] {
            return next(h({v[0], v[1] - 1})[0], h({v[0], v[1] - 2})[0]);
          })};
    });
    loss = within(graph.scope({.device = device}), [&] { return reduce_sum(h({h0, n})[0] * h0); });
    differentiate(loss);
  }
  Output next(const Output& before, const Output& earlier) {
    return tanh(matmul(before, w) + earlier * u);
  }
  Output plain(int64_t k) { return k <= 0 ? h0 : next(plain(k - 1), plain(k - 2)); }
};

}  // namespace

TEST_CASE("a function that calls itself has derivatives of any order") {
  for (bool passes : {true, false})
    for (int threads : {1, 2}) {
      CAPTURE(passes);
      CAPTURE(threads);
      Graph graph;
      const Output x = placeholder(graph, DType::f64, {}, "x");
      const Output n = placeholder(graph, DType::i64, {}, "n");
      const Output y = make_power(graph)({x, n})[0];
      const Output d = gradients({y}, {x})[0];
      const Output dd = gradients({d}, {x})[0];
      const Output ddd = gradients({dd}, {x})[0];
      Session session = Session::local(graph, {.threads = threads, .passes = passes});
      Callable step = session.prepare({y, d, dd, ddd}, {x, n});
      for (int64_t k : {0, 1, 2, 5}) {
        CAPTURE(k);
        const auto m = static_cast<double>(k);
        const std::vector<Tensor> got = step({number(1.5), count(k)});
        const double want[] = {1, m, m * (m - 1), m * (m - 1) * (m - 2)};
        for (size_t i = 0; i < 4; ++i)
          CHECK(got[i].item<double>() ==
                doctest::Approx(want[i] * std::pow(1.5, m - static_cast<double>(i))));
      }
    }
}

TEST_CASE("the gradients of a recursive network are those of the network written out") {
  for (int threads : {1, 4}) {
    CAPTURE(threads);
    Tree tree(-1);
    Session session = Session::local(tree.graph, {.threads = threads});
    check_written_out(session, tree, {1, 2, 6});
  }
  Tree elsewhere(-1, "/device:cpu:1");
  Session two = Session::local(elsewhere.graph, {.threads = 2, .cpu_devices = 2});
  check_written_out(two, elsewhere, {1, 2, 6});
  check_written_out_remotely<Tree>({1, 2, 6});
}

TEST_CASE("the gradients of a recursive network agree with central differences") {
  check_network_slopes<Tree>();
}

TEST_CASE("gradients go back through functions that call each other") {
  Graph graph;
  const Output x = placeholder(graph, DType::f64, {}, "x");
  const Output n = placeholder(graph, DType::i64, {}, "n");
  Function a = declare_function(graph, "a", {kNumber, kCount}, {kNumber});
  Function b = declare_function(graph, "b", {kNumber, kCount}, {kNumber});
  a.define([&](const Values& v) {
    return Values{cond(
        less_equal(v[1], whole(graph, 0)), [&] { return v[0]; },
        [&] {
          return sin(b({v[0], v[1] - 1})[0]);
        })};
  });
  b.define([&](const Values& v) {
    return Values{cond(
        less_equal(v[1], whole(graph, 0)), [&] { return v[0] * v[0]; },
        [&] {
          return a({v[0], v[1] - 1})[0] * 2;
        })};
  });
  const Output y = a({x, n})[0];
  Session session = Session::local(graph, {.threads = 1});
  Callable step = session.prepare({y, gradients({y}, {x})[0]}, {x, n});
  const auto check = [&](int64_t k, double value, double derivative) {
    const std::vector<Tensor> got = step({number(0.7), count(k)});
    CHECK(got[0].item<double>() == doctest::Approx(value));
    CHECK(got[1].item<double>() == doctest::Approx(derivative));
  };
  check(0, 0.7, 1);
  check(1, std::sin(0.49), 2 * 0.7 * std::cos(0.49));
  check(2, std::sin(1.4), 2 * std::cos(1.4));
  const double inner = 2 * std::sin(0.49);  // a(3) = sin(2 sin(x * x))
  check(3, std::sin(inner), std::cos(inner) * 2 * std::cos(0.49) * 1.4);
}

TEST_CASE("gradients pass through calls in loops, and through functions that take gradients") {
  for (bool recompute : {false, true}) {
    CAPTURE(recompute);
    Graph graph;
    const Output x = placeholder(graph, DType::f64, {}, "x");
    const Output n = placeholder(graph, DType::i64, {}, "n");
    const Function power = make_power(graph);
    const Function slope = define_function(graph, "slope", {kNumber}, [&](const Values& v) {
      return gradients(power({v[0], whole(graph, 3)}), {v[0]});  // 3 x^2
    });
    const Output looped = counted_loop(n, {x}, {.recompute = recompute}, [&](const Values& v) {
      return Values{power({v[1] * 0.5, whole(graph, 2)})[0]};
    })[1];
    const Output steep = slope({slope({x})[0]})[0];  // 27 x^4
    const Output y = looped + steep;
    Session session = Session::local(graph, {.threads = 2});
    Callable step = session.prepare({looped, steep, gradients({y}, {x})[0]}, {x, n});
    const std::vector<Tensor> got = step({number(1.2), count(3)});
    // x -> x^2 / 4, three times: x^8 / 4^7
    CHECK(got[0].item<double>() == doctest::Approx(std::pow(1.2, 8) / std::pow(4, 7)));
    CHECK(got[1].item<double>() == doctest::Approx(27 * std::pow(1.2, 4)));
    CHECK(got[2].item<double>() ==
          doctest::Approx(8 * std::pow(1.2, 7) / std::pow(4, 7) + 108 * std::pow(1.2, 3)));
  }
}

TEST_CASE("a loop in the body of a function that calls itself has a gradient") {
  Graph graph;
  const Output x = placeholder(graph, DType::f64, {}, "x");
  const Output n = placeholder(graph, DType::i64, {}, "n");
  Function f = declare_function(graph, "f", {kNumber, kCount}, {kNumber});
  f.define([&](const Values& v) {  // n <= 0 ? x : f(x, n - 1) * x^n
    return Values{cond(
        less_equal(v[1], whole(graph, 0)), [&] { return v[0]; },
        [&] {
          return counted_loop(v[1], {f({v[0], v[1] - 1})[0]}, {},
                              [&](const Values& l) { return Values{l[1] * v[0]}; })[1];
        })};
  });
  const Output y = f({x, n})[0];
  Session session = Session::local(graph, {.threads = 1});
  Callable step = session.prepare({y, gradients({y}, {x})[0]}, {x, n});
  const std::vector<Tensor> got = step({number(1.1), count(3)});  // x^7
  CHECK(got[0].item<double>() == doctest::Approx(std::pow(1.1, 7)));
  CHECK(got[1].item<double>() == doctest::Approx(7 * std::pow(1.1, 6)));
}

TEST_CASE("a body's own backward function goes with each copy of the body") {
  for (bool recursive : {false, true}) {
    CAPTURE(recursive);
    Graph graph;
    const Output x = placeholder(graph, DType::f64, {}, "x");
    // y = x * 3, with a backward function that claims the derivative 10 x.
    const auto odd_one = [&](const Output& v) {
      return with_gradient(
          {v}, v * 3, [](const Values& in, Output, Output dy) { return Values{dy * in[0] * 10}; });
    };
    Function f = declare_function(graph, "f", {kNumber, kCount}, {kNumber});
    f.define([&](const Values& v) {
      const Output y = odd_one(v[0]);
      if (!recursive) return Values{y};
      return Values{cond(
          less_equal(v[1], whole(graph, 0)), [&] { return y; },
          [&] {
            return f({y, v[1] - 1})[0];
          })};
    });
    const Output y = recursive ? f({x, whole(graph, 1)})[0]
                               : f({f({x, whole(graph, 1)})[0], whole(graph, 0)})[0];
    Session session = Session::local(graph, {.threads = 1});
    const auto got = session.run({y, gradients({y}, {x})[0]}, {{x, number(2)}});
    CHECK(got[0].item<double>() == 18);
    CHECK(got[1].item<double>() == 20 * 60);
  }
}

TEST_CASE("the gradient of a function that calls itself draws the numbers that the function drew") {
  Graph graph;
  const TensorType row{DType::f64, Shape{8}};
  const Output x = placeholder(graph, row.dtype, row.shape, "x");
  Function f = declare_function(graph, "f", {row, kCount}, {row});
  f.define([&](const Values& v) {  // a linear function of x, twice
    return Values{cond(
        less_equal(v[1], whole(graph, 0)), [&] { return v[0]; },
        [&] {
          const Output drawn = random_uniform(graph, {8}, 0, 1, 0, DType::f64);
          return f({dropout(v[0], 0.5, 3) * drawn, v[1] - 1})[0];
        })};
  });
  const Output y = f({x, whole(graph, 2)})[0];
  const Tensor ones = Tensor::of<double>({1, 1, 1, 1, 1, 1, 1, 1}, Shape{8});
  Session session = Session::local(graph, {.threads = 1});
  const auto got = session.run({y, gradients({y}, {x})[0]}, {{x, ones}});
  for (size_t i = 0; i < 8; ++i)
    CHECK(got[1].values<double>()[i] == doctest::Approx(got[0].values<double>()[i]));
}

TEST_CASE("a gradient inside a body through that function's own call is refused") {
  Graph graph;
  Function f = declare_function(graph, "f", {kNumber}, {kNumber});
  check_invalid(
      [&] { f.define([&](const Values& v) { return gradients({f({v[0] * v[0]})[0]}, {v[0]}); }); },
      "gradients() inside the body of f", "differentiate what the function returns instead");
}

}  // namespace troupe
