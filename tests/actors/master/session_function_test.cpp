// Functions in a session: the values of calls, their depth and how they are stopped. The tests of
// gradients are in session_function_gradient_test.cpp.

#include <atomic>
#include <chrono>
#include <thread>

#include "tests/support/engine/local_cluster.hpp"
#include "tests/support/engine/recursion.hpp"
#include "tests/support/refusal.hpp"
#include "tests/support/within.hpp"
#include "tests/support/threads.hpp"
#include "troupe/ops/parameters.hpp"
#include "troupe/optimizer.hpp"

namespace troupe {
namespace {

// fib(n) = n < 2 ? n : fib(n - 1) + fib(n - 2)
Function make_fib(Graph& graph, const FunctionOptions& options = {}) {
  Function fib = declare_function(graph, "fib", {kCount}, {kCount}, options);
  fib.define([&](const Values& n) {
    return Values{cond(
        less(n[0], whole(graph, 2)), [&] { return n[0]; },
        [&] { return fib({n[0] - 1})[0] + fib({n[0] - 2})[0]; })};
  });
  return fib;
}

int64_t fib_of(int64_t n) { return n < 2 ? n : fib_of(n - 1) + fib_of(n - 2); }

// A sum over the depth: down(n) = n <= 0 ? 0 : n + down(n - 1).
Function make_down(Graph& graph, const FunctionOptions& options = {}) {
  Function down = declare_function(graph, "down", {kCount}, {kCount}, options);
  down.define([&](const Values& n) {
    return Values{cond(
        less_equal(n[0], whole(graph, 0)), [&] { return whole(graph, 0); },
        [&] { return n[0] + down({n[0] - 1})[0]; })};
  });
  return down;
}

}  // namespace

TEST_CASE("a function that calls itself gives what it gives on paper") {
  for (bool passes : {true, false})
    for (int threads : {1, 2, 4}) {
      CAPTURE(passes);
      CAPTURE(threads);
      Graph graph;
      const Output n = placeholder(graph, DType::i64, {}, "n");
      const Output y = make_fib(graph)({n})[0];
      Session session = Session::local(graph, {.threads = threads, .passes = passes});
      Callable step = session.prepare({y}, {n});
      for (int64_t k : {0, 1, 2, 7, 15, 3}) CHECK(step({count(k)})[0].item<int64_t>() == fib_of(k));
    }
}

TEST_CASE("functions that call each other find their end") {
  Graph graph;
  const Output n = placeholder(graph, DType::i64, {}, "n");
  const TensorType truth{DType::boolean, Shape{}};
  Function even = declare_function(graph, "even", {kCount}, {truth});
  Function odd = declare_function(graph, "odd", {kCount}, {truth});
  const auto define = [&](Function& f, const Function& other, bool at_zero) {
    f.define([&](const Values& k) {
      return Values{cond(
          equal(k[0], whole(graph, 0)), [&] { return constant(graph, Tensor::scalar(at_zero)); },
          [&] { return other({k[0] - 1})[0]; })};
    });
  };
  define(even, odd, true);
  define(odd, even, false);
  Session session = Session::local(graph, {.threads = 2});
  Callable step = session.prepare({even({n})[0], odd({n})[0]}, {n});
  for (int64_t k : {0, 1, 2, 9, 50}) {
    CAPTURE(k);
    const std::vector<Tensor> got = step({count(k)});
    CHECK(got[0].item<bool>() == (k % 2 == 0));
    CHECK(got[1].item<bool>() == (k % 2 == 1));
  }
}

TEST_CASE("a function is called in branches, in loops, by other functions, and with other shapes") {
  Graph graph;
  const Output n = placeholder(graph, DType::i64, {}, "n");
  const Output c = placeholder(graph, DType::f64, {}, "c");
  const Function scaled =
      define_function(graph, "scaled", {{DType::f64, Shape{-1}}}, [&](const Values& x) {
        return Values{x[0] * c, reduce_sum(x[0] * c)};
      });
  const Function squared_sum =
      define_function(graph, "squared_sum", {{DType::f64, Shape{-1}}},
                      [&](const Values& x) { return Values{scaled({scaled(x)[0]})[1]}; });
  Function fact = declare_function(graph, "fact", {kCount}, {kCount});
  fact.define([&](const Values& k) {
    return Values{cond(
        less(k[0], whole(graph, 2)), [&] { return whole(graph, 1); },
        [&] { return k[0] * fact({k[0] - 1})[0]; })};
  });
  const Output two = constant(graph, Tensor::of<double>({1, 2}, {2}));
  const Output three = constant(graph, Tensor::of<double>({1, 2, 3}, {3}));
  const Output branched = cond(
      less(n, whole(graph, 3)), [&] { return squared_sum({two})[0]; },
      [&] { return squared_sum({three})[0]; });
  // The sum of the factorials below n.
  const Values looped = counted_loop(
      n, {whole(graph, 0)}, {}, [&](const Values& v) { return Values{v[1] + fact({v[0]})[0]}; });
  Session session = Session::local(graph, {.threads = 2});
  Callable step = session.prepare({branched, looped[1], fact({fact({n})[0]})[0]}, {n, c});
  const std::vector<Tensor> small = step({count(2), number(3)});
  CHECK(small[0].item<double>() == 27);
  CHECK(small[1].item<int64_t>() == 2);
  CHECK(small[2].item<int64_t>() == 2);
  const std::vector<Tensor> large = step({count(3), number(-2)});
  CHECK(large[0].item<double>() == 24);
  CHECK(large[1].item<int64_t>() == 4);
  CHECK(large[2].item<int64_t>() == 720);
}

TEST_CASE("calls share the parameters that a body reads, and all of them train them") {
  for (bool recursive : {false, true}) {
    CAPTURE(recursive);
    Graph graph;
    const Output x = placeholder(graph, DType::f64, {}, "x");
    const Output w0 = fill(graph, {}, 2, DType::f64);
    Function layer;
    if (recursive) {  // w to the power of three, times x
      layer = declare_function(graph, "layer", {kCount, kNumber}, {kNumber});
      layer.define([&](const Values& v) {
        return Values{cond(
            less_equal(v[0], whole(graph, 0)), [&] { return v[1]; },
            [&] {
              return layer({v[0] - 1, v[1] * parameter("w", w0)})[0];
            })};
      });
    } else {
      layer = define_function(graph, "layer", {kNumber},
                              [&](const Values& v) { return Values{v[0] * parameter("w", w0)}; });
    }
    const Output y =
        recursive ? layer({whole(graph, 3), x})[0] : layer({layer({layer({x})[0]})[0]})[0];
    int parameters = 0;
    for (const auto& node : graph.nodes()) parameters += node->op->name == "Parameter";
    CHECK(parameters == 1);
    const Output update = minimize(y, sgd(0.01));
    Session session = Session::local(graph, {.threads = 2});
    Callable step = session.prepare({y, update}, {x});
    CHECK(step({number(5)})[0].item<double>() == 40);
    const double w = 2 - 0.01 * 3 * 2 * 2 * 5;
    CHECK(step({number(5)})[0].item<double>() == doctest::Approx(w * w * w * 5));
  }
}

TEST_CASE("ten thousand calls, one inside the other, fit, and leave no memory behind") {
  Graph graph;
  const Output n = placeholder(graph, DType::i64, {}, "n");
  const Output y = make_down(graph)({n})[0];
  Session session = Session::local(graph, {.threads = 1});
  Callable step = session.prepare({y}, {n});
  CHECK(step({count(10'000)})[0].item<int64_t>() == 50'005'000);
  CHECK(step({count(10)})[0].item<int64_t>() == 55);
  const int64_t used = session.device_states()[0].used_bytes;
  CHECK(step({count(10'000)})[0].item<int64_t>() == 50'005'000);
  CHECK(step({count(10)})[0].item<int64_t>() == 55);
  CHECK(session.device_states()[0].used_bytes <= used + (64 << 10));
}

TEST_CASE("calls without an end are refused with the function, the depth and the remedy") {
  for (int threads : {1, 2}) {
    CAPTURE(threads);
    Graph graph;
    const Output n = placeholder(graph, DType::i64, {}, "n");
    const Output y = make_down(graph, {.depth_max = 500})({n})[0];
    Session session = Session::local(graph, {.threads = threads});
    Callable step = session.prepare({y}, {n});
    CHECK(step({count(499)})[0].item<int64_t>() == 499 * 250);
    for (int again = 0; again < 2; ++again) {
      check_invalid([&] { step({count(501)}); },
                    "more than 500 calls, one inside the other, of the Function node down",
                    "session_function_test.cpp:", "raise FunctionOptions::depth_max",
                    "in down_1, 500 calls deep");
      CHECK(step({count(3)})[0].item<int64_t>() == 6);
    }
  }
}

TEST_CASE("calls that take too long end at the deadline, or when they are taken back") {
  for (int threads : {1, 2}) {
    CAPTURE(threads);
    Graph graph;
    const Output n = placeholder(graph, DType::i64, {}, "n");
    const Output y = make_fib(graph)({n})[0];
    Session session = Session::local(graph, {.threads = threads});
    Callable step = session.prepare({y}, {n});
    RunOptions options{.timeout = std::chrono::milliseconds(50)};
    CHECK(code_of([&] { step({count(80)}, options); }) == Errc::timeout);
    Cancellation cancel;
    options = {.cancel = &cancel};
    std::atomic<bool> begun{false};
    std::thread other([&] {
      while (!begun.load()) std::this_thread::yield();
      cancel.cancel();
    });
    begun = true;
    CHECK(code_of([&] { step({count(80)}, options); }) == Errc::cancelled);
    other.join();
    CHECK(step({count(10)})[0].item<int64_t>() == 55);
  }
}

TEST_CASE("a call stands where it is called, on another device or in another process") {
  const auto check = [](Session& session, const Output& y, const Output& n) {
    Callable step = session.prepare({y + y}, {n});
    for (int64_t k : {0, 1, 9, 4}) CHECK(step({count(k)})[0].item<int64_t>() == 2 * fib_of(k));
  };
  for (const char* device : {"/device:cpu:1", "/device:shadow:0"}) {
    CAPTURE(device);
    Graph graph;
    const Output n = placeholder(graph, DType::i64, {}, "n");
    const Function fib = make_fib(graph);
    const auto scope = graph.scope({.device = device});
    const Output there = fib({n + 1})[0];
    const auto back = graph.scope({.device = "/device:cpu:0"});
    Session session = Session::local(graph, {.threads = 2, .cpu_devices = 2, .shadow_devices = 1});
    Callable step = session.prepare({there - fib({n})[0]}, {n});  // one copy on each device
    for (int64_t k : {1, 9, 4}) CHECK(step({count(k)})[0].item<int64_t>() == fib_of(k - 1));
    check(session, fib({n})[0], n);
  }
  LocalCluster cluster({"/job:worker/task:0", "/job:worker/task:1"});
  Graph graph;
  const Output n = placeholder(graph, DType::i64, {}, "n");
  const Function fib = make_fib(graph);
  const Output y =
      within(graph.scope({.device = "/job:worker/task:1"}), [&] { return fib({n})[0]; });
  Session session = cluster.connect(graph);
  check(session, y, n);
}

TEST_CASE("several threads call one function at once") {
  Graph graph;
  const Output n = placeholder(graph, DType::i64, {}, "n");
  const Output y = make_fib(graph)({n})[0];
  Session session = Session::local(graph, {.threads = 2});
  const Callable step = session.prepare({y}, {n});
  std::atomic<int> wrong{0};
  on_threads(4, [&](int t) {
    for (int64_t i = 0; i < 50; ++i) {
      const int64_t k = (i + t) % 12;
      if (step({count(k)})[0].item<int64_t>() != fib_of(k)) ++wrong;
    }
  });
  CHECK(wrong == 0);
}

TEST_CASE("a body waits for what is outside, and stops waiting when the step is stopped") {
  Graph graph;
  const Output n = placeholder(graph, DType::i64, {}, "n");
  const Queue queue = make_queue(graph, {kCount});
  Function sum = declare_function(graph, "sum", {kCount}, {kCount});
  sum.define([&](const Values& k) {  // sum of k elements
    return Values{cond(
        less_equal(k[0], whole(graph, 0)), [&] { return whole(graph, 0); },
        [&] { return dequeue(queue)[0] + sum({k[0] - 1})[0]; })};
  });
  const Output x = placeholder(graph, DType::i64, {}, "x");
  const Output put = enqueue(queue, {x});
  Session session = Session::local(graph, {.threads = 2});
  Callable add_one = session.prepare({put}, {x});
  Callable step = session.prepare({sum({n})[0]}, {n});
  for (int64_t k : {3, 4, 5}) add_one({count(k)});
  CHECK(step({count(3)})[0].item<int64_t>() == 12);
  check_error(
      Errc::timeout, [&] { step({count(2)}, {.timeout = std::chrono::milliseconds(50)}); },
      "Dequeue");
  for (int64_t k : {1, 2}) add_one({count(k)});
  CHECK(step({count(2)})[0].item<int64_t>() == 3);
}

TEST_CASE("what fails in a body is told with the node, the function and the depth") {
  Graph graph;
  const Output n = placeholder(graph, DType::i64, {}, "n");
  const Output table = constant(graph, Tensor::of<int64_t>({7, 8, 9}, {3}));
  Function look = declare_function(graph, "look", {kCount}, {kCount});
  look.define([&](const Values& k) {
    return Values{cond(
        equal(gather(table, k[0]), whole(graph, -1)), [&] { return k[0]; },
        [&] { return look({k[0] - 1})[0]; })};
  });
  Session session = Session::local(graph, {.threads = 2});
  Callable step = session.prepare({look({n})[0]}, {n});
  check_invalid([&] { step({count(2)}); }, "Gather", "in look_1, 4 calls deep");
}

TEST_CASE("a result that is not what was declared ends the step with the call's name") {
  Graph graph;
  const Output x = placeholder(graph, DType::f64, {-1}, "x");
  Function last =
      declare_function(graph, "last", {{DType::f64, Shape{-1}}}, {{DType::f64, Shape{2}}});
  last.define([&](const Values& v) {
    return Values{cond(
        less(reduce_sum(v[0]), fill(graph, {}, 0, DType::f64)), [&] { return v[0]; },
        [&] { return last({v[0] - 1})[0]; })};
  });
  Session session = Session::local(graph, {.threads = 1});
  Callable step = session.prepare({last({x})[0]}, {x});
  CHECK(step({Tensor::of<double>({1, 1}, {2})})[0].data<double>()[1] == -1);
  check_invalid(
      [&] {
        step({Tensor::of<double>({1, 1, 1}, {3})});
      },
      "gave back f64[3] as result 0, which was declared as f64[2]");
}

TEST_CASE("a graph with functions runs after it was written down, and can be added to") {
  Graph graph;
  placeholder(graph, DType::i64, {}, "n");
  make_fib(graph)({graph.output("n")});
  const std::string text = to_text(graph);
  const auto read = graph_from_text(text);
  CHECK(to_text(*read) == text);
  const Output n = read->output("n");
  const Output more = find_function(*read, "fib")({n + 1})[0];
  Session session = Session::local(*read, {.threads = 1});
  const auto got = session.run({more}, {{n, count(9)}});
  CHECK(got[0].item<int64_t>() == 55);
}

}  // namespace troupe
