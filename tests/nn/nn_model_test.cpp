// nn::Model: names of parameters, sharing between models and towers, penalties.
#include "tests/support/parameters.hpp"
#include "tests/support/refusal.hpp"
#include "troupe/optimizer.hpp"

namespace troupe {
namespace {

const nn::DenseOptions kBare = {.bias = false};

}  // namespace

TEST_CASE("parameters are called by the model's scopes, not by the graph's") {
  Graph graph;
  const auto tower = graph.scope({.name = "tower0", .replica = 3});
  nn::Model model(graph);
  const Output x = placeholder(graph, DType::f32, {-1, 2}, "x");
  nn::dense(model, x, 2, kBare);
  {
    const auto outer = model.scope("encoder");
    CHECK(outer.name() == "encoder");
    nn::dense(model, x, 2, kBare);
    const auto inner = model.scope("top");
    CHECK(inner.name() == "encoder/top");
    nn::dense(model, x, 2, {.bias = false, .name = "last"});
  }
  const Output y = nn::dense(model, x, 2, kBare);
  CHECK(parameter_names(model) ==
        Names{"dense/w", "encoder/dense/w", "encoder/top/last/w", "dense_1/w"});
  CHECK(y.name() == "tower0/dense_1/MatMul");
  CHECK(model.parameters()[2].name() == "tower0/encoder/top/last/w");
  CHECK(graph.node(model.parameters()[0].node).attr<int64_t>("replica") == 3);
}

TEST_CASE("models that are built alike read the same parameters, tower by tower") {
  Graph graph;
  const auto build = [&](int64_t replica, bool training) {
    const auto tower = graph.scope({.name = detail::concat("tower", replica), .replica = replica});
    nn::Model model(graph, {.training = training});
    const Output x = placeholder(graph, DType::f32, {-1, 2}, "x");
    nn::dense(model, nn::batch_norm(model, nn::dense(model, x, 4)), 3);
    return parameter_names(model);
  };
  const Names first = build(0, true);
  CHECK(first.size() == 6);
  CHECK(build(1, true) == first);
  CHECK(build(2, false) == first);
}

TEST_CASE("a model that is rewound shares its parameters with the pass before") {
  Graph graph;
  nn::Model model(graph, {.training = true});
  const Output x = placeholder(graph, DType::f32, {-1, 2}, "x");
  const Output a = nn::dense(model, x, 2);
  model.rewind();
  const Output b = nn::dense(model, x, 2), c = nn::dense(model, x, 2);
  CHECK(graph.node(a.node).inputs[1].is(graph.node(b.node).inputs[1]));
  CHECK_FALSE(graph.node(a.node).inputs[1].is(graph.node(c.node).inputs[1]));
  CHECK(parameter_names(model) == Names{"dense/w", "dense/b", "dense_1/w", "dense_1/b"});
  const auto scope = model.scope("open");
  CHECK_THROWS_WITH_AS(model.rewind(), doctest::Contains("the scope open/ is open"), Error);
}

TEST_CASE("penalties are those of regularized weights, each counted once") {
  Graph graph;
  nn::Model model(graph);
  const Output x = constant(graph, Tensor::of<double>({1, 1}, {1, 2}));
  const Output loss = reduce_sum(x);
  CHECK(model.with_penalties(loss).is(loss));
  nn::dense(model, x, 1, {.weights = nn::constant(-3), .regularizer = {.l1 = 0.5}, .name = "a"});
  nn::dense(model, x, 1, {.weights = nn::constant(2), .regularizer = {.l2 = 0.25}, .name = "b"});
  nn::dense(model, x, 1, {.weights = nn::constant(-3), .regularizer = {.l1 = 0.5}, .name = "a"});
  nn::dense(model, x, 1, {.weights = nn::constant(100)});
  // 2 + 0.5 * (3 + 3) + 0.25 / 2 * (4 + 4)
  CHECK(evaluate(model.with_penalties(loss), feed_parameters(graph)).item<double>() == 6);
}

TEST_CASE("without running averages an update is itself") {
  Graph graph;
  nn::Model model(graph);
  const Output update = group(graph, {});
  CHECK(model.with_updates(update).is(update));
  CHECK_THROWS_AS(model.with_updates({}), Error);
  CHECK_THROWS_AS(model.with_penalties({}), Error);
}

TEST_CASE("a running average has one decay") {
  Graph graph;
  nn::Model model(graph, {.training = true});
  const Output x = constant(graph, Tensor::of<double>({1, 2}, {2, 1}));
  nn::batch_norm(model, x, {.decay = 0.5, .name = "n"});
  CHECK_THROWS_WITH_AS(nn::batch_norm(model, x, {.decay = 0.25, .name = "n"}),
                       doctest::Contains("n/mean has the decay 0.5 already, got 0.25"), Error);
}

}  // namespace troupe
