// minimize(): the pushes that it adds, their gradients, and its refusals.
#include <doctest/doctest.h>

#include <map>
#include <string>

#include "tests/support/evaluate.hpp"
#include "tests/support/refusal.hpp"
#include "troupe/ops.hpp"
#include "troupe/optimizer.hpp"

namespace troupe {
namespace {

// The pushes that a group waits for, in order.
std::vector<const Node*> pushes_of(Output update) {
  std::vector<const Node*> pushes;
  for (int32_t id : update.graph->node(update.node).control_inputs)
    pushes.push_back(&update.graph->node(id));
  return pushes;
}

Output ones(Graph& graph, Shape shape = {}) { return fill(graph, shape, 1, DType::f64); }

// w * v + w, a scalar; no two parameters have equal gradients.
struct Model {
  Graph graph;
  Output w = parameter("w", ones(graph)), v = parameter("v", ones(graph));
  Output loss = add(multiply(w, v), w);
  double slope(const Node& push, double w_value, double v_value) {
    return evaluate(push.inputs[0], {{w, Tensor::scalar(w_value)}, {v, Tensor::scalar(v_value)}})
        .item<double>();
  }
};

}  // namespace

TEST_CASE(
    "minimize pushes the gradient of every parameter of the loss, with the optimizer's settings") {
  Model m;
  parameter("unused", ones(m.graph));
  const Output update = minimize(m.loss, adam(0.5, 0.8, 0.7, 1e-3));
  CHECK(m.graph.node(update.node).outputs.empty());
  const auto pushes = pushes_of(update);
  REQUIRE(pushes.size() == 2);
  CHECK(pushes[0]->attr<std::string>("parameter") == "w");
  CHECK(m.slope(*pushes[0], 2, 3) == 4);  // v + 1
  CHECK(pushes[1]->attr<std::string>("parameter") == "v");
  CHECK(m.slope(*pushes[1], 2, 3) == 2);  // w
  CHECK(pushes[0]->attr<std::string>("optimizer") ==
        "adam(learning rate 0.5, beta1 0.8, beta2 0.7, epsilon 0.001)");
}

TEST_CASE("minimize trains only the parameters it is given") {
  Model m;
  const auto pushes = pushes_of(minimize(m.loss, momentum(0.1), {m.v}));
  REQUIRE(pushes.size() == 1);
  CHECK(pushes[0]->attr<std::string>("parameter") == "v");
  CHECK(pushes[0]->attr<std::string>("optimizer") == "momentum(learning rate 0.1, momentum 0.9)");
}

TEST_CASE("a push waits for the reads of its parameter, even where its gradient needs none") {
  Graph graph;
  const Output w = parameter("w", ones(graph));
  const Output update = minimize(w, sgd(0.1));  // dw = 1
  CHECK(pushes_of(update).at(0)->control_inputs == std::vector<int32_t>{w.node});
}

TEST_CASE(
    "reads of one parameter on two devices are pushed to once, as their sum; replicas are apart") {
  Graph graph;
  const auto read = [&](const std::string& device, int64_t replica) {
    const auto scope = graph.scope({.device = device, .replica = replica});
    return parameter("w", ones(graph));
  };
  const Output a = read("/job:worker/task:0", 0), b = read("/job:worker/task:1", 0);
  const Output other = read("/job:worker/task:0", 1);
  const Output three = constant(graph, Tensor::scalar(3.0));
  const auto pushes = pushes_of(minimize(add(add(a, multiply(b, three)), other), sgd(0.1)));
  REQUIRE(pushes.size() == 2);
  CHECK(pushes[0]->attr<int64_t>("replica") == 0);
  CHECK(evaluate(pushes[0]->inputs[0]).item<double>() == 4);
  CHECK(pushes[0]->control_inputs == std::vector<int32_t>{a.node, b.node});
  CHECK(pushes[1]->attr<int64_t>("replica") == 1);
  CHECK(evaluate(pushes[1]->inputs[0]).item<double>() == 1);
}

TEST_CASE("the halves of minimize make the nodes that it makes") {
  Model whole, halves;
  const Origin at{"here.cpp", 1};
  const auto all = TrainedParameters::all();
  minimize(whole.loss, adam(0.1), all, at);
  apply_gradients(parameter_gradients(halves.loss, all, at), adam(0.1), at);
  CHECK(to_text(whole.graph) == to_text(halves.graph));
  CHECK_THROWS_WITH_AS(apply_gradients({}, sgd(1)), doctest::Contains("got no gradients"), Error);
}

TEST_CASE("minimize finds the parameters that a backward function goes back to") {
  Graph graph;
  const Output w = parameter("w", ones(graph));
  const auto pass = [](const std::vector<Output>&, Output, Output dy) {
    return std::vector<Output>{dy};
  };
  // Its value is not computed from w.
  const auto pushes = pushes_of(minimize(with_gradient({w}, ones(graph), pass), sgd(0.1)));
  REQUIRE(pushes.size() == 1);
  CHECK(pushes[0]->attr<std::string>("parameter") == "w");
}

TEST_CASE("a node without outputs is no loss, no first value and no gradient") {
  Graph graph;
  const Output w = parameter("w", ones(graph)), ran = group(graph, {w});
  const auto refused = [](auto&& call) {
    CHECK_THROWS_WITH_AS(call(), doctest::Contains("has no output 0; it has none"), Error);
  };
  refused([&] { (void)(ran + 1.0); });
  refused([&] { minimize(ran, sgd(0.1)); });
  refused([&] { parameter("v", group(graph, {ones(graph)})); });
  refused([&] { push_gradient(w, ran, sgd(0.1)); });
}

TEST_CASE("parameters behind stop_gradient are left alone unless they are asked for") {
  Graph graph;
  const Output w = parameter("w", ones(graph)), v = parameter("v", ones(graph));
  const Output loss = add(w, stop_gradient(v));
  CHECK(pushes_of(minimize(loss, sgd(0.1))).size() == 1);
  CHECK_THROWS_WITH_AS(minimize(loss, sgd(0.1), {w, v}),
                       doctest::Contains("has no gradient with respect to the Parameter node v"),
                       Error);
}

TEST_CASE("an empty list of parameters is refused, and is not the same as all") {
  Model m;
  const char* const text = "the list of parameters is empty, so nothing would be trained";
  check_invalid([&] { minimize(m.loss, sgd(0.1), {}); }, "minimize_test.cpp:", text);
  check_invalid([&] { minimize(m.loss, sgd(0.1), std::vector<Output>()); }, text);
  check_invalid([&] { parameter_gradients(m.loss, std::vector<Output>()); }, text);
  check_invalid([&] { minimize_scaled(m.loss, sgd(0.1), {}, std::vector<Output>()); }, text);
  CHECK(pushes_of(minimize(m.loss, sgd(0.1), TrainedParameters::all())).size() == 2);
}

TEST_CASE("parameters are chosen by patterns of their names") {
  Graph graph;
  std::map<std::string, Output> all;
  Output loss = ones(graph);
  for (const char* name : {"body/dense/w", "body/dense/b", "head/w", "head/b"}) {
    all[name] = parameter(name, ones(graph));
    loss = loss * all[name];
  }
  parameter("other/w", ones(graph));  // the loss does not depend on it
  const auto same = [&](const std::vector<Output>& got, const std::vector<const char*>& names) {
    REQUIRE(got.size() == names.size());
    for (size_t i = 0; i < names.size(); ++i) CHECK(got[i].is(all.at(names[i])));
  };
  same(parameters_named(loss, {"head/*"}), {"head/w", "head/b"});
  same(parameters_named(loss, {"*/b", "body/*/w"}), {"body/dense/w", "body/dense/b", "head/b"});
  same(parameters_named(loss, {"head/w"}), {"head/w"});
  same(parameters_except(loss, {"body/*"}), {"head/w", "head/b"});
  CHECK(pushes_of(minimize(loss, sgd(0.1), parameters_named(loss, {"head/*"}))).size() == 2);
  check_invalid(
      [&] {
        parameters_named(loss, {"head/*", "heat/w"});
      },
      "minimize_test.cpp:", "no parameter of the loss is called \"heat/w\"; did you mean head/w?",
      "there are body/dense/b, body/dense/w, head/b, head/w");
  check_invalid([&] { parameters_named(loss, {"other/*"}); }, "\"other/*\"");
  check_invalid([&] { parameters_except(loss, {"*"}); }, "no parameter is left of body/dense/b");
}

TEST_CASE(
    "minimize refuses a loss that is no number or has no parameters, and what is no parameter") {
  Graph graph, other;
  const Output w = parameter("w", ones(graph, {2}));
  const Output c = ones(graph);
  CHECK_THROWS_WITH_AS(
      minimize(w, sgd(0.1)),
      doctest::Contains("wants a scalar loss of f32 or f64, got f64[2] from the Parameter node w"),
      Error);
  CHECK_THROWS_WITH_AS(minimize(Output{}, sgd(0.1)), doctest::Contains("undefined Output"), Error);
  CHECK_THROWS_WITH_AS(minimize(c, sgd(0.1)),
                       doctest::Contains("has no gradient with respect to any parameter"), Error);
  CHECK_THROWS_WITH_AS(minimize(reduce_sum(w), sgd(0.1), {c}),
                       doctest::Contains("is not a parameter; pass what parameter() returned"),
                       Error);
  CHECK_THROWS_WITH_AS(minimize(reduce_sum(w), sgd(0.1), {parameter("w", ones(other))}),
                       doctest::Contains("comes from another graph than the loss"), Error);
}

}  // namespace troupe
