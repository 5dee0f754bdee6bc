// Parameter and PushGradient: their requests to the shards, and the nodes that parameter() makes.
#include "tests/support/fake_shards.hpp"
#include "tests/support/op_cases.hpp"
#include "troupe/optimizer.hpp"

namespace troupe {
namespace {

const Node& node_of(Output output) { return output.graph->node(output.node); }

// Checks that `text` contains `part`; prints it if not.
void check_text(const std::string& text, const std::string& part) {
  CHECK_MESSAGE(text.find(part) != text.npos, "got: ", text);
}

}  // namespace

TEST_CASE("a parameter node pulls its name for its replica and step") {
  Graph graph;
  const auto tower = graph.scope({.name = "tower1", .replica = 1});
  const Output w = parameter("w", constant(graph, vector({0, 0})));
  CHECK(w.name() == "tower1/w");
  FakeShards shards;
  shards.values["w"] = vector({3, 4});
  const FakeFiring got = fire(node_of(w), {}, {.step = 7, .parameters = &shards});
  REQUIRE(got.replies == 1);
  CHECK(same_bits(got.outputs.at(0), vector({3, 4})));
  REQUIRE(shards.pulls.size() == 1);
  CHECK(shards.pulls[0].parameter == "w");
  CHECK(shards.pulls[0].replica == 1);
  CHECK(shards.pulls[0].step == 7);
}

TEST_CASE("a pull that fails, finds no shards, or another tensor, fails with the reason") {
  Graph graph;
  const Output w = parameter("w", constant(graph, vector({0, 0})));
  const FakeFiring alone = fire(node_of(w), {}, {});
  CHECK(alone.replies == 1);
  CHECK((alone.code == Errc::invalid_argument));
  check_text(alone.text, "has no parameter shards; run the graph through a Session");

  FakeShards shards;
  const FakeFiring lost = fire(node_of(w), {}, {.parameters = &shards});
  CHECK(lost.replies == 1);
  CHECK((lost.code == Errc::peer_lost));
  check_text(lost.text, "Parameter node w made at ");
  check_text(lost.text, ": nobody holds w");

  shards.values["w"] = f32(vector({1, 2}));
  const FakeFiring other = fire(node_of(w), {}, {.parameters = &shards});
  CHECK(other.replies == 1);
  CHECK((other.code == Errc::bad_configuration));
  check_text(other.text, "the shards hold f32[2], not f64[2]");
}

TEST_CASE(
    "the same name, device and replica is the same node; else it is a node with the same initial "
    "value") {
  Graph graph;
  const Output first = constant(graph, zeros({2})), second = constant(graph, full({2}, 1));
  const Output w = parameter("w", first);
  CHECK(parameter("w", second).is(w));
  CHECK_FALSE(parameter("v", second).is(w));
  {
    const auto scope = graph.scope({.name = "tower1", .replica = 1});
    const Output other_replica = parameter("w", second);
    CHECK_FALSE(other_replica.is(w));
    CHECK(node_of(other_replica).attr<int64_t>("replica") == 1);
    CHECK(node_of(other_replica).attr<std::string>("initial") == "Constant:0");
    CHECK(parameter("w", second).is(other_replica));
  }
  const auto scope = graph.scope({.device = "/job:worker/task:1"});
  const Output other_device = parameter("w", second);
  CHECK_FALSE(other_device.is(w));
  CHECK(node_of(other_device).attr<std::string>("parameter") == "w");
  CHECK(graph.output(node_of(other_device).attr<std::string>("initial")).is(first));
}

TEST_CASE("one name has one type") {
  Graph graph;
  parameter("w", constant(graph, zeros({2})));
  CHECK_THROWS_WITH_AS(parameter("w", constant(graph, zeros({3}))),
                       doctest::Contains("it is f64[3] here, but f64[2] as the Parameter node w"),
                       Error);
  CHECK_THROWS_WITH_AS(parameter("w", constant(graph, f32(zeros({2})))),
                       doctest::Contains("it is f32[2] here, but f64[2]"), Error);
}

TEST_CASE("an initial value depends on nothing that comes with a step") {
  Graph graph;
  const Output x = placeholder(graph, DType::f32, {2}, "images");
  CHECK_THROWS_WITH_AS(
      parameter("w", add(x, x)),
      doctest::Contains("its initial value depends on the Placeholder node images"), Error);
  const Output v = parameter("v", constant(graph, zeros({2})));
  CHECK_THROWS_WITH_AS(parameter("w", negate(v)),
                       doctest::Contains("depends on the Parameter node v"), Error);
  CHECK_THROWS_WITH_AS(parameter("w", Output{}), doctest::Contains("is an undefined Output"),
                       Error);
  CHECK_NOTHROW(parameter("w", truncated_normal(graph, {2, 3})));
}

TEST_CASE("push_gradient hands the gradient over and waits for the acknowledgement") {
  Graph graph;
  const auto tower = graph.scope({.replica = 2});
  const Output w = parameter("w", constant(graph, vector({0, 0})));
  const Output push = push_gradient(w, constant(graph, vector({1, 2})));
  CHECK(node_of(push).outputs.empty());
  CHECK(node_of(push).attr<std::string>("optimizer") == "sgd(learning rate 0.01)");
  FakeShards shards;
  const FakeFiring lost = fire(node_of(push), {vector({5, 6})}, {.step = 9, .parameters = &shards});
  CHECK(lost.replies == 1);
  check_text(lost.text, "PushGradient node PushGradient made at ");
  check_text(lost.text, ": nobody holds w");
  shards.values["w"] = vector({0, 0});
  const FakeFiring got = fire(node_of(push), {vector({5, 6})}, {.step = 9, .parameters = &shards});
  CHECK(got.replies == 1);
  CHECK((got.code == Errc::ok));
  CHECK(got.outputs.empty());
  REQUIRE(shards.pushes.size() == 2);
  CHECK(shards.pushes[1].replica == 2);
  CHECK(shards.pushes[1].step == 9);
  CHECK(same_bits(shards.pushes[1].gradient, vector({5, 6})));
  const FakeFiring alone = fire(node_of(push), {vector({5, 6})}, {});
  CHECK((alone.code == Errc::invalid_argument));
  check_text(alone.text, "has no parameter shards");
}

TEST_CASE("push_gradient refuses what is no parameter, no gradient of it, or no optimizer") {
  Graph graph;
  const Output w = parameter("w", constant(graph, vector({0, 0})));
  const Output g = constant(graph, vector({1, 2}), "g");
  CHECK_THROWS_WITH_AS(push_gradient(g, g), doctest::Contains("got the Constant node g"), Error);
  CHECK_THROWS_WITH_AS(push_gradient(w, constant(graph, zeros({3}))),
                       doctest::Contains("the gradient is f64[3], but the parameter w is f64[2]"),
                       Error);
  CHECK_THROWS_WITH_AS(
      push_gradient(w, g, {.kind = "adagard"}),
      doctest::Contains("there is no optimizer 'adagard'; known are sgd, momentum, nesterov, "),
      Error);
  CHECK_THROWS_WITH_AS(push_gradient(w, g, sgd(-1)),
                       doctest::Contains("has learning rate -1; wants a finite number from 0"),
                       Error);
  CHECK_THROWS_WITH_AS(push_gradient(w, g, momentum(0.1, 1)),
                       doctest::Contains("has momentum 1; wants a number in [0, 1)"), Error);
  CHECK_THROWS_WITH_AS(push_gradient(w, g, adam(0.1, 0.9, NAN)),
                       doctest::Contains("has beta2 nan; wants a number in [0, 1)"), Error);
}

}  // namespace troupe
