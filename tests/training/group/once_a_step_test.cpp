// Pushes and writes count once in a step of each replica: a second one, which would be lost, is
// refused, in functions, in loops and outside.

#include <functional>
#include <vector>

#include "tests/support/refusal.hpp"
#include "troupe/op.hpp"
#include "troupe/ops.hpp"
#include "troupe/ops/control_flow.hpp"
#include "troupe/session.hpp"
#include "troupe/optimizer.hpp"
#include "troupe/training.hpp"

namespace troupe {
namespace {

constexpr RunOptions kBounded{.timeout = std::chrono::seconds(20)};

Tensor number(double value) { return Tensor::scalar<double>(value); }

// A parameter w, initially 0; each pushed value is subtracted from it.
struct Pushes {
  Graph graph;
  Output w = parameter("w", constant(graph, number(0)));
  Output one = constant(graph, number(1)), two = constant(graph, number(2));
  Function push = define_function(graph, "push", {{DType::f64, Shape{}}}, [&](const auto& g) {
    return std::vector<Output>{push_gradient(w, g[0], sgd(1))};
  });
};

double value_of(Session& session, Output parameter) {
  return session.run({parameter}, {}, kBounded)[0].item<double>();
}

std::string refused(const std::function<void()>& what) {
  return error_text(Errc::invalid_argument, what);
}

void has_all(const std::string& text, const std::vector<std::string>& parts) {
  for (const std::string& part : parts) has(text, part);
}

}  // namespace

TEST_CASE("two calls of a function that pushes are refused in one step, and work in two") {
  Pushes p;
  const Output a = p.push({p.one})[0], b = p.push({p.two})[0];
  Session session = Session::local(p.graph, {.threads = 1});
  for (int i = 0; i < 2; ++i)  // the second run is refused, too
    has_all(refused([&] {
              session.run({a, b}, {}, kBounded);
            }),
            {"parameter w is pushed to twice in a step of replica 0", "push/PushGradient_1",
             "push/PushGradient_2", "both are of calls of the function push",
             "let it return the gradient, and push the sum"});
  session.run({a}, {}, kBounded);
  session.run({b}, {}, kBounded);
  CHECK(value_of(session, p.w) == -3);
}

TEST_CASE("two pushes to one parameter are refused in one step without functions, too") {
  Pushes p;
  const Output a = push_gradient(p.w, p.one, sgd(1)), b = push_gradient(p.w, p.two, sgd(1));
  Session session = Session::local(p.graph, {.threads = 1});
  has_all(
      refused([&] {
        session.prepare({group(p.graph, {a, b})});
      }),
      {"parameter w is pushed to twice", "push the sum of the gradients, or fetch one of the two"});
  session.run({b}, {}, kBounded);
  CHECK(value_of(session, p.w) == -2);
}

TEST_CASE("a function is named for pushes of its calls alone, whatever else its line has made") {
  Graph graph;
  const Output w = parameter("w", constant(graph, number(0))), one = constant(graph, number(1));
  const auto line = [&](Output gradient) { return push_gradient(w, gradient, sgd(1)); };
  const auto defined = [&](const char* name) {
    return define_function(graph, name, {{DType::f64, Shape{}}},
                           [&](const auto& g) { return std::vector<Output>{line(g[0])}; });
  };
  const Function f = defined("f"), g = defined("g");
  Session session = Session::local(graph, {.threads = 1});
  const auto text_of = [&](Output a, Output b) {
    return refused([&] { session.prepare({a, b}); });
  };
  const Output in_f = f({one})[0], in_g = g({one})[0], outside = line(one);
  has(text_of(g({one})[0], in_g), "both are of calls of the function g, ");
  has(text_of(in_f, f({one})[0]), "both are of calls of the function f, ");
  for (const auto& [a, b] : {std::pair(in_f, in_g), std::pair(in_g, outside),
                             std::pair(line(one), outside), std::pair(in_f, outside)})
    has(text_of(a, b), "but its shards count one push a step; push the sum of the gradients, or");
}

TEST_CASE(
    "each branch of a choice may push, and a step whose branch does not push passes without") {
  Pushes p;
  const Output which = placeholder(p.graph, DType::i64, {});
  const Output nothing = constant(p.graph, Tensor::scalar(false));
  const Output chosen =
      switch_case(which, {[&] { return p.push({p.one}); }, [&] { return p.push({p.two}); },
                          [&] { return std::vector<Output>{nothing}; }})[0];
  Session session = Session::local(p.graph, {.threads = 1});
  double sum = 0;
  for (const int64_t i : {0, 1, 2, 0, 2, 2, 1}) {
    session.run({chosen}, {{which, Tensor::scalar<int64_t>(i)}}, kBounded);
    sum -= i == 0 ? 1 : i == 1 ? 2 : 0;
    CHECK(value_of(session, p.w) == sum);
  }
  // Beside a push outside the switch, each push inside it would be a second one.
  const Output always = push_gradient(p.w, p.one, sgd(1));
  has_all(refused([&] { session.prepare({chosen, always}, {which}); }), {"pushed to twice"});
  // Two switches on one value: branches with equal numbers both run, others never both.
  const auto pushes_in = [&](int64_t number) {
    return switch_case(which, {[&] { return number == 0 ? p.push({p.one}) : std::vector{nothing}; },
                               [&] { return number == 1 ? p.push({p.two}) : std::vector{nothing}; },
                               [&] { return std::vector<Output>{nothing}; }})[0];
  };
  const Output in_0 = pushes_in(0), in_1 = pushes_in(1), again_in_1 = pushes_in(1);
  session.run({in_0, in_1}, {{which, Tensor::scalar<int64_t>(1)}}, kBounded);
  CHECK(value_of(session, p.w) == sum - 2);
  has_all(refused([&] { session.prepare({in_1, again_in_1}, {which}); }), {"pushed to twice"});
}

TEST_CASE("a loop does not push, by itself, by a function, or as a graph that was put together") {
  Pushes p;
  const auto loop_with = [&](const std::function<Output()>& effect) {
    return while_loop([](const auto& v) { return v[0]; },
                      [&](const auto&) { return std::vector<Output>{effect()}; },
                      {constant(p.graph, Tensor::scalar(true))})[0];
  };
  has_all(refused([&] { loop_with([&] { return push_gradient(p.w, p.one, sgd(1)); }); }),
          {"PushGradient made at ", "it is inside a loop, but parameter w is pushed to once a step",
           "let the loop add up the gradients"});
  has_all(refused([&] { loop_with([&] { return p.push({p.one})[0]; }); }),
          {"function push, called at ",
           "it is called in a loop, and its body has the PushGradient node",
           "parameter w is pushed to once a step", "return the value, and push it then"});
  const Output by_hand = loop_with([&] {
    const Output push = p.graph.add(
        {.op = "PushGradient", .inputs = {p.one}, .attrs = {{"parameter", std::string("w")}}});
    const auto after = p.graph.scope({.control_inputs = {push.node}});
    return constant(p.graph, Tensor::scalar(false));
  });
  Session session = Session::local(p.graph, {.threads = 1});
  has_all(refused([&] { session.prepare({by_hand}); }),
          {"is inside a loop, but parameter w is pushed to once a step"});
}

TEST_CASE("a function that is called for one replica alone pushes for that replica alone") {
  Pushes p;
  Output step, w;
  {
    const auto tower = p.graph.scope({.replica = 1});
    step = p.push({p.one})[0];
    w = parameter("w", constant(p.graph, number(0)));
  }
  Session session = Session::local(p.graph, {.threads = 1});
  for (int i = 1; i <= 3; ++i) {
    session.run({step}, {}, kBounded);  // with no other replica, nothing to wait for
    CHECK(value_of(session, w) == -i);
  }
}

}  // namespace troupe
