// gradients(): values with the real ops; the structure of the added nodes with toy ops.
#include <doctest/doctest.h>

#include "tests/support/evaluate.hpp"
#include "tests/support/engine/toy_ops.hpp"
#include "tests/support/within.hpp"
#include "troupe/ops.hpp"

using namespace troupe;

namespace {

const Tensor kX = Tensor::of<double>({1, -2, 3}, {3});

// A graph with one fed input x, f64[3] by default.
struct Sheet {
  explicit Sheet(Shape shape = {3}) : x(placeholder(graph, DType::f64, shape, "x")) {}
  std::vector<double> value(const Output& output) {
    const Tensor tensor = evaluate(graph, {output}, {{x, kX}})[0];
    return {tensor.values<double>().begin(), tensor.values<double>().end()};
  }
  Graph graph;
  Output x;
};

using Values = std::vector<double>;

// The nodes that `build` adds, as text.
template <class F>
std::string added(Graph& graph, F&& build) {
  const size_t before = to_text(graph).size();
  build();
  return to_text(graph).substr(before);
}

std::string refusal(const std::function<void(Graph&)>& build) {
  Graph graph(toy_ops());
  return error_of([&] { build(graph); });
}

}  // namespace

TEST_CASE("gradients add up over all ways from y to x") {
  Sheet s;
  const Output y = s.x * s.x + s.x;  // dy/dx = 2x + 1
  CHECK(s.value(gradients({y}, {s.x})[0]) == Values{3, -3, 7});
}

TEST_CASE("gradients of several ys are summed, each times its given gradient") {
  Sheet s;
  const Output a = square(s.x), b = negate(s.x);
  CHECK(s.value(gradients({a, b}, {s.x})[0]) == Values{1, -5, 5});
  const Output weights = constant(s.graph, Tensor::of<double>({10, 100, 0}, {3}));
  CHECK(s.value(gradients({a, b}, {s.x}, {weights, Output()})[0]) == Values{19, -401, -1});
}

TEST_CASE("the gradient of x for x is one") {
  Sheet s;
  CHECK(s.value(gradients({s.x}, {s.x})[0]) == Values{1, 1, 1});
}

TEST_CASE("an x on the way to another gets the whole gradient, and so does the other") {
  Sheet s;
  const Output u = square(s.x), y = square(u);
  const auto d = gradients({y}, {s.x, u});
  CHECK(s.value(d[0]) == Values{4, -32, 108});  // 4 x^3
  CHECK(s.value(d[1]) == Values{2, 8, 18});     // 2 u
}

TEST_CASE("what y does not depend on has an undefined gradient, and nothing is added for it") {
  Sheet s;
  const Output other = placeholder(s.graph, DType::f64, {3}, "other");
  const Output y = square(s.x);
  CHECK(added(s.graph, [&] { CHECK_FALSE(gradients({y}, {other})[0].defined()); }).empty());
  CHECK_FALSE(gradients({y}, {s.x, other})[1].defined());
}

TEST_CASE("stop_gradient lets nothing through") {
  Sheet s;
  CHECK(s.value(gradients({s.x * stop_gradient(s.x)}, {s.x})[0]) == Values{1, -2, 3});
  CHECK_FALSE(gradients({stop_gradient(s.x)}, {s.x})[0].defined());
}

TEST_CASE("integers have no gradient and end the way") {
  Sheet s;
  const Output i = cast(s.x, DType::i64), y = cast(i, DType::f64);
  const auto d = gradients({y + s.x}, {s.x, i});
  CHECK(s.value(d[0]) == Values{1, 1, 1});
  CHECK_FALSE(d[1].defined());
}

TEST_CASE("gradients can be differentiated again") {
  Sheet s;
  const Output y = s.x * s.x * s.x;
  const Output first = gradients({y}, {s.x})[0];
  const Output second = gradients({first}, {s.x})[0];
  const Output third = gradients({second}, {s.x})[0];
  CHECK(s.value(first) == Values{3, 12, 27});
  CHECK(s.value(second) == Values{6, -12, 18});
  CHECK(s.value(third) == Values{6, 6, 6});
}

TEST_CASE("sizes that are not known before the step are no obstacle") {
  Sheet s({-1});
  CHECK(s.value(gradients({square(s.x)}, {s.x})[0]) == Values{2, -4, 6});
}

TEST_CASE("broadcasting is undone") {
  Sheet s;
  const Output one = placeholder(s.graph, DType::f64, {1}, "one");
  const Output d = gradients({s.x * one}, {one})[0];
  CHECK(d.shape() == Shape{1});
  CHECK(
      evaluate(s.graph, {d}, {{s.x, kX}, {one, Tensor::of<double>({5}, {1})}})[0].item<double>() ==
      2);
}

TEST_CASE("with_gradient replaces the gradient of what lies between") {
  Sheet s;
  // Clamped from below, with the gradient of the identity.
  const Output inner = square(s.x);
  const Output clamped = with_gradient(
      {inner}, relu(inner - 2.0),
      [](const std::vector<Output>&, Output, Output dy) -> std::vector<Output> { return {dy}; });
  const Output y = 3.0 * clamped + s.x;
  CHECK(s.value(y) == Values{1, 4, 24});
  CHECK(s.value(gradients({y}, {s.x})[0]) == Values{7, -11, 19});  // 3 * 2x + 1
}

TEST_CASE("a backward function sees inputs and output, and its nodes can be differentiated again") {
  Sheet s;
  const Output y = with_gradient(
      {s.x}, exp(s.x),
      [](const std::vector<Output>& in, Output out, Output dy) -> std::vector<Output> {
        return {dy * out * in[0]};  // wrong for exp on purpose
      });
  const Output first = gradients({y}, {s.x})[0];  // e^x x
  const Output second =
      gradients({first}, {s.x})[0];  // (e^x x) x + e^x: y has the replaced gradient here, too
  const Values e = s.value(y), f = s.value(first), g = s.value(second);
  const Values x = {1, -2, 3};
  for (size_t i = 0; i < 3; ++i) {
    CHECK(f[i] == doctest::Approx(e[i] * x[i]));
    CHECK(g[i] == doctest::Approx(e[i] * x[i] * x[i] + e[i]));
  }
}

TEST_CASE(
    "with_gradient passes no gradient to what its function leaves undefined or does not name") {
  Sheet s;
  const Output other = placeholder(s.graph, DType::f64, {3}, "other");
  const auto nothing = [](const std::vector<Output>&, Output, Output) {
    return std::vector<Output>{Output()};
  };
  const Output y = with_gradient({s.x}, s.x * other, nothing);
  const auto d = gradients({y}, {s.x, other});
  CHECK_FALSE(d[0].defined());
  CHECK_FALSE(d[1].defined());
}

TEST_CASE("wrong backward functions are refused where with_gradient was called") {
  Sheet s;
  const auto two = [](const std::vector<Output>&, Output, Output dy) {
    return std::vector<Output>{dy, dy};
  };
  const Output y = with_gradient({s.x}, square(s.x), two, {"train.cpp", 42});
  CHECK(error_of([&] { gradients({y}, {s.x}); }) ==
        "WithGradient node WithGradient made at train.cpp:42: the backward function gave 2 "
        "gradients for 1 inputs; it gives one for each, an undefined one for none");
  const auto sum = [](const std::vector<Output>&, Output, Output dy) {
    return std::vector<Output>{reduce_sum(dy)};
  };
  const Output z = with_gradient({s.x}, square(s.x), sum, {"train.cpp", 43});
  CHECK(error_of([&] { gradients({z}, {s.x}); }) ==
        "the gradient of the WithGradient node WithGradient_1 made at train.cpp:43 for its input 0 "
        "is f64[], but the input "
        "is f64[3]; a gradient has the type of its input");
}

TEST_CASE(
    "a graph that was read back runs, but refuses to differentiate a lost backward function") {
  Sheet s;
  with_gradient(
      {s.x}, square(s.x),
      [](const std::vector<Output>&, Output, Output dy) { return std::vector<Output>{dy}; },
      {"train.cpp", 42});
  const auto copy = graph_from_text(to_text(s.graph));
  const Output x = copy->output("x"), y = copy->output("WithGradient");
  CHECK(evaluate(*copy, {y}, {{x, kX}})[0].values<double>()[2] == 9);
  CHECK(error_of([&] { gradients({y}, {x}); }) ==
        "WithGradient node WithGradient made at train.cpp:42: WithGradient has no gradient: its "
        "backward function belongs to "
        "the Graph object where with_gradient() was called, and text and protobuf forms do not "
        "hold it; put stop_gradient "
        "before it, or give one by with_gradient");
}

TEST_CASE(
    "gradient nodes are named after the forward node and have its device, replica, partner and "
    "origin") {
  Graph graph(toy_ops());
  const Output x = source(graph, "x"), dy = source(graph, "dy");
  const Output y = within(
      graph.scope({.name = "fc1", .device = "/job:worker/task:1", .colocate_with = "x"}), [&] {
        return graph.add({.op = "Mul", .inputs = {x, x}, .name = "y"}, {"model.cpp", 5});
      });
  const auto elsewhere =
      graph.scope({.name = "train", .device = "/job:ps/task:3", .colocate_with = "dy"});
  CHECK(
      added(graph, [&] { gradients({y}, {x}, {dy}); }) ==
      "train/gradients/fc1/y/Mul = Mul(dy, x) on \"/job:worker/task:1\" with x at \"model.cpp\":5\n"
      "train/gradients/fc1/y/Mul_1 = Mul(dy, x) on \"/job:worker/task:1\" with x at "
      "\"model.cpp\":5\n"
      "train/gradients/x/sum = Add(train/gradients/fc1/y/Mul, train/gradients/fc1/y/Mul_1) at "
      "\"train.cpp\":1\n");
  CHECK(graph.node(source(graph, "after").node).device == "/job:ps/task:3");
}

TEST_CASE(
    "what a backward function draws belongs to the replica of its node, whatever scope is open") {
  Sheet s;
  Output y;
  {
    const auto tower = s.graph.scope({.replica = 3});
    y = with_gradient({s.x}, square(s.x),
                      [](const std::vector<Output>&, Output, Output dy) -> std::vector<Output> {
                        return {dropout(dy, 0.5)};
                      });
  }
  const auto other = s.graph.scope({.replica = 7});
  const Output dx = gradients({y}, {s.x})[0];
  const Node& sum = s.graph.node(dx.node);
  const Node& drawn = sum.op->name == "Dropout" ? sum : s.graph.node(sum.inputs[0].node);
  REQUIRE(drawn.op->name == "Dropout");
  CHECK(drawn.attr<int64_t>("replica") == 3);
}

TEST_CASE("the gradients of a chain of ten thousand nodes need no deep stack") {
  Graph graph(toy_ops());
  const Output x = source(graph, "x"), dy = source(graph, "dy");
  Output y = x;
  for (int i = 0; i < 10000; ++i) y = graph.add({.op = "Add", .inputs = {y, x}});
  CHECK(gradients({y}, {x}, {dy})[0].defined());
  CHECK(graph.nodes().size() == 2 + 10000 + 10000);
}

TEST_CASE("an op without a gradient on the way is refused, and off the way it is not asked") {
  CHECK(refusal([](Graph& g) {
          const Output x = source(g, "x");
          gradients({apply(g, "Round", {x}, "r")}, {x}, {x});
        }) ==
        "Round node r made at train.cpp:42: Round has no gradient: it is flat between its jumps; "
        "put stop_gradient before "
        "it, or give one by with_gradient");
  Graph graph(toy_ops());
  const Output x = source(graph, "x"), other = source(graph, "other");
  const Output y = apply(graph, "Mul", {x, apply(graph, "Round", {other})});
  CHECK(gradients({y}, {x}, {x})[0].defined());
}

TEST_CASE("wrong calls of gradients are refused with the caller's line") {
  const std::string at = "gradients() called at train.cpp:9: ";
  const Origin line{"train.cpp", 9};
  CHECK(refusal([&](Graph& g) { gradients({}, {source(g, "x")}, {}, line); }) ==
        at + "there is no y to differentiate; pass a loss");
  CHECK(refusal([&](Graph& g) {
          gradients({Output{&g, 99, 0}}, {source(g, "x")}, {}, line);
        }) == "the graph has no node number 99; it has 1 nodes, counted from 0");
  CHECK(refusal([&](Graph& g) { gradients({source(g, "y")}, {Output()}, {}, line); }) ==
        at + "x 0 is an undefined Output; pass the result of an op");
  CHECK(refusal([&](Graph& g) {
          gradients({source(g, "i", {2}, DType::i32)}, {source(g, "x")}, {}, line);
        }) == at + "y 0 (i) is i32; only floating-point numbers have gradients, so cast it");
  CHECK(refusal([&](Graph& g) {
          const Output y = source(g, "y");
          gradients({y}, {y}, {y, y}, line);
        }) == at + "wants one y gradient for each of 1 ys, got 2; leave them out for ones");
  CHECK(refusal([&](Graph& g) {
          const Output y = source(g, "y");
          gradients({y}, {y}, {source(g, "d", {3})}, line);
        }) ==
        at + "y gradient 0 is f32[3], but y 0 (y) is f32[2]; a gradient has the type of its y");
  Graph other(toy_ops());
  const Output foreign = source(other, "z");
  CHECK(refusal([&](Graph& g) { gradients({source(g, "y")}, {foreign}, {}, line); }) ==
        at + "x 0 (z) is of another graph than y 0; build both in one Graph");
}
