// nn::Model: names of parameters, sharing between models and towers, penalties.
#include <set>

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

TEST_CASE("a part that is reused reads its parameters again, and has no new ones") {
  Graph graph;
  nn::Model model(graph, {.training = true});
  const Output x = placeholder(graph, DType::f32, {-1, 2}, "x");
  const auto decoder = [&](Output in) {
    const Output hidden = nn::dense(model, nn::dropout(model, in, 0.5), 2);
    return nn::dense(model, nn::batch_norm(model, hidden), 2);
  };
  Output once, again, outer;
  {
    const auto scope = model.scope("decoder");
    once = decoder(x);
  }
  const Names built = parameter_names(model);
  {
    const auto scope = model.reuse("decoder");
    CHECK(scope.name() == "decoder");
    again = decoder(x);
  }
  CHECK(parameter_names(model) == built);
  CHECK_FALSE(once.is(again));
  std::set<std::string> masks;  // keys of dropout: each building draws its own
  for (const auto& node : graph.nodes())
    if (node->op->name == "Dropout") masks.insert(node->attr<std::string>("key"));
  CHECK(masks.size() == 2);

  const auto scope = model.scope("outer");
  outer = nn::dense(model, x, 2);
  {
    const auto same = model.reuse();
    CHECK(graph.node(nn::dense(model, x, 2).node).inputs[1].is(graph.node(outer.node).inputs[1]));
    CHECK_THROWS_WITH_AS(model.rewind(), doctest::Contains("is open; close it first"), Error);
  }
  nn::dense(model, x, 2, kBare);  // counts on where it was before reuse()
  CHECK(parameter_names(model).back() == "outer/dense_1/w");
}

TEST_CASE("a layer that would be new is refused where layers are reused, with the nearest name") {
  Graph graph;
  nn::Model model(graph), answering(graph, {.reuse = true});
  const Output x = placeholder(graph, DType::f32, {-1, 2}, "x");
  nn::dense(model, x, 2, {.name = "head"});
  CHECK(parameter_names(model) == Names{"head/w", "head/b"});
  nn::dense(answering, x, 2, {.name = "head"});
  CHECK(parameter_names(answering) == Names{"head/w", "head/b"});
  check_invalid([&] { nn::dense(answering, x, 2, {.name = "heat"}); },
                "nn_model_test.cpp:", "the parameter heat/w does not exist; did you mean head/w?",
                "build it first");
  const auto again = model.reuse();
  check_invalid([&] { nn::batch_norm(model, x); }, "the parameter batch_norm/gamma does not exist");
}

TEST_CASE("a further layer of a kind in a scope that is open again is refused, with the remedy") {
  Graph graph;
  nn::Model model(graph);
  const Output x = placeholder(graph, DType::f32, {-1, 2}, "x");
  for (const bool first : {true, false}) {
    CAPTURE(first);
    const auto scope = model.scope("decoder");
    nn::dense(model, x, 2, {.bias = false, .name = "shared"});
    if (first)
      nn::dense(model, x, 2, kBare);
    else
      check_invalid([&] { nn::dense(model, x, 2, kBare); }, "nn_model_test.cpp:",
                    "the scope decoder is open again and has a layer dense already",
                    "new parameters, decoder/dense_1", "open it with reuse(\"decoder\")");
  }
  {
    const auto scope = model.scope("decoder");
    nn::layer_norm(model, x);  // a kind that it does not have
    nn::layer_norm(model, x);
  }
  model.rewind();
  const auto scope = model.scope("decoder");
  nn::dense(model, x, 2, kBare);
  CHECK(parameter_names(model).size() == 2 + 4);
}

TEST_CASE("blocks of one name share the parameters of the layers in them") {
  Graph graph;
  nn::Model model(graph, {.training = true});
  const Output x = placeholder(graph, DType::f32, {-1, 8, 8, 4}, "x");
  nn::residual_block(model, x, 4, {.name = "block"});
  const Names built = parameter_names(model);
  nn::residual_block(model, x, 4, {.name = "block"});
  CHECK(parameter_names(model) == built);
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
