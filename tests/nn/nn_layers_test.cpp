// Layers: their values for given parameters against NumPy; the names of their parameters;
// gradients; refusals.

#include "tests/support/parameters.hpp"
#include "tests/support/refusal.hpp"
#include "troupe/optimizer.hpp"

namespace troupe {
TEST_CASE("a dense layer is x w + b over the last dimension") {
  Graph graph;
  nn::Model model(graph);
  const Output x = constant(graph, Tensor::of<double>({1, 2, 3, 4, 5, 6}, {3, 2}));
  const Output y = nn::dense(model, x, 2), cube = nn::dense(model, reshape(x, {1, 3, 2}), 2);
  const Output bare = nn::dense(model, x, 3, {.bias = false, .name = "bare"});
  CHECK(parameter_names(model) == Names{"dense/w", "dense/b", "dense_1/w", "dense_1/b", "bare/w"});
  const Tensor w = Tensor::of<double>({1, -1, 0.5, 2}, {2, 2}),
               b = Tensor::of<double>({10, 20}, {2});
  const FedValues feeds =
      feed_parameters(graph, {{"dense/w", w}, {"dense/b", b}, {"dense_1/w", w}, {"dense_1/b", b}});
  check_close(evaluate(y, feeds), {3, 2}, {12, 23, 15, 25, 18, 27});
  check_close(evaluate(cube, feeds), {1, 3, 2}, {12, 23, 15, 25, 18, 27});
  CHECK(evaluate(bare, feeds).shape() == Shape{3, 3});
}

TEST_CASE("a convolution layer is conv2d with a bias for each filter") {
  Graph graph;
  nn::Model model(graph);
  const Tensor image = sines({2, 5, 4, 3}, 0.3, 1), filter = sines({3, 3, 3, 2}, 0.7, 2);
  const Output x = constant(graph, image);
  const Output y = nn::conv2d(model, x, 2, 3, {.stride = 2, .same_padding = false});
  CHECK(parameter_names(model) == Names{"conv2d/w", "conv2d/b"});
  const FedValues feeds = feed_parameters(
      graph, {{"conv2d/w", filter}, {"conv2d/b", Tensor::of<double>({1, -1}, {2})}});
  const Output plain = conv2d(x, constant(graph, filter), {.stride = 2, .same_padding = false});
  const Tensor got = evaluate(y, feeds), want = evaluate(plain);
  CHECK(got.shape() == Shape{2, 2, 1, 2});
  for (int64_t i = 0; i < got.size(); ++i)
    CHECK(got.data<double>()[i] == want.data<double>()[i] + (i % 2 ? -1 : 1));
}

TEST_CASE("an embedding is rows of its table, or their mean") {
  Graph graph;
  nn::Model model(graph);
  const Output ids = constant(graph, Tensor::of<int64_t>({2, 0, 1, 1}, {2, 2}));
  const Output rows = nn::embedding(model, ids, 3, 2, {.dtype = DType::f64});
  const Output mean = nn::embedding(
      model, ids, 3, 2, {.combiner = Combiner::mean, .dtype = DType::f64, .name = "embedding"});
  CHECK(parameter_names(model) == Names{"embedding/w"});  // shared, since the names are equal
  const FedValues feeds =
      feed_parameters(graph, {{"embedding/w", Tensor::of<double>({1, 2, 3, 4, 5, 6}, {3, 2})}});
  check_close(evaluate(rows, feeds), {2, 2, 2}, {5, 6, 1, 2, 3, 4, 3, 4});
  check_close(evaluate(mean, feeds), {2, 2}, {3, 4, 3, 4});
}

TEST_CASE("an embedding begins as normal numbers of variance 1") {
  Graph graph;
  nn::Model model(graph);
  nn::embedding(model, constant(graph, Tensor::scalar<int64_t>(0)), 500, 20, {.dtype = DType::f64});
  const Tensor w = feed_parameters(graph).begin()->second;
  CHECK(w.size() == 10'000);
  double sum = 0, squares = 0;
  for (double v : w.values<double>()) sum += v, squares += v * v;
  // The standard deviations of both means are 0.01 and 0.014.
  CHECK(std::abs(sum / 1e4) < 0.05);
  CHECK(std::abs(squares / 1e4 - 1) < 0.07);
}

TEST_CASE("batch_norm normalises by the batch in training, and by its averages afterwards") {
  const Tensor values = Tensor::of<double>({1, 2, 3, -4, 5, 9, 0, 1}, {4, 2});
  const Tensor gamma = Tensor::of<double>({2, 0.5}, {2}), beta = Tensor::of<double>({-1, 3}, {2});
  Graph graph;
  const Output x = constant(graph, values);
  nn::Model training(graph, {.training = true}), inference(graph);
  const Output y = nn::batch_norm(training, x), z = nn::batch_norm(inference, x);
  CHECK(parameter_names(training) == Names{"batch_norm/gamma", "batch_norm/beta"});
  const FedValues feeds =
      feed_parameters(graph, {{"batch_norm/gamma", gamma},
                              {"batch_norm/beta", beta},
                              {"batch_norm/mean", Tensor::of<double>({0.5, -1}, {2})},
                              {"batch_norm/variance", Tensor::of<double>({4, 0.25}, {2})}});
  std::vector<double> by_batch, by_averages;
  for (int64_t i = 0; i < 8; ++i) {
    const double v = values.data<double>()[i];
    const double mean = i % 2 ? 2 : 2.25, variance = i % 2 ? 21.5 : 3.6875;
    const double scale = i % 2 ? 0.5 : 2, shift = i % 2 ? 3 : -1;
    by_batch.push_back((v - mean) / std::sqrt(variance + 1e-5) * scale + shift);
    by_averages.push_back((v - (i % 2 ? -1 : 0.5)) / std::sqrt((i % 2 ? 0.25 : 4) + 1e-5) * scale +
                          shift);
  }
  check_close(evaluate(y, feeds), {4, 2}, by_batch);
  check_close(evaluate(z, feeds), {4, 2}, by_averages);
}

TEST_CASE("the averages of batch_norm are pushed with n / (n - 1), and trained by no gradient") {
  Graph graph;
  const Output x = placeholder(graph, DType::f64, {-1, 2});
  nn::Model model(graph, {.training = true});
  const Output loss = reduce_mean(square(nn::batch_norm(model, x, {.decay = 0.75})));
  const Output update = model.with_updates(minimize(loss, sgd(0.1)));
  std::map<std::string, Output> pushed;  // gradients by parameter
  std::map<std::string, std::string> optimizers;
  for (const auto& node : graph.nodes()) {
    if (node->op->name != "PushGradient") continue;
    const auto& name = node->attr<std::string>("parameter");
    CHECK(pushed.emplace(name, node->inputs[0]).second);
    optimizers[name] = node->attr<std::string>("optimizer");
  }
  CHECK(pushed.size() == 4);
  CHECK(optimizers.at("batch_norm/mean") == describe(sgd(0.25)));
  CHECK(optimizers.at("batch_norm/beta") == describe(sgd(0.1)));
  CHECK(graph.node(update.node).control_inputs.size() == 3);
  FedValues feeds = feed_parameters(graph);
  feeds[x] = Tensor::of<double>({1, 2, 3, -4, 5, 9, 0, 1}, {4, 2});
  // 0 - mean, 1 - unbiased variance.
  check_close(evaluate(pushed.at("batch_norm/mean"), feeds), {2}, {-2.25, -2});
  check_close(evaluate(pushed.at("batch_norm/variance"), feeds), {2},
              {1 - 4.916666666666667, 1 - 28.666666666666668});
  feeds[x] = Tensor::of<double>({1, 2}, {1, 2});  // one record has no variance
  check_close(evaluate(pushed.at("batch_norm/variance"), feeds), {2}, {1, 1});
}

TEST_CASE("a batch_norm that is used twice in a step moves its averages by the mean of both") {
  Graph graph;
  nn::Model model(graph, {.training = true});
  for (const double shift : {0.0, 10.0}) {
    const Output x = constant(graph, Tensor::of<double>({1 + shift, 3 + shift}, {2, 1}));
    nn::batch_norm(model, x, {.name = "shared"});
  }
  model.with_updates(group(graph, {}));
  Output gradient;
  int pushes = 0;
  for (const auto& node : graph.nodes()) {
    if (node->op->name != "PushGradient") continue;
    ++pushes;
    if (node->attr<std::string>("parameter") == "shared/mean") gradient = node->inputs[0];
  }
  CHECK(pushes == 2);
  check_close(evaluate(gradient, feed_parameters(graph)), {1}, {-7});
}

TEST_CASE("layer, RMS and group norms are their ops with parameters of their own") {
  Graph graph;
  nn::Model model(graph);
  const Tensor values = sines({2, 3, 4}, 0.9, 0.4);
  const Output x = constant(graph, values);
  const Output layer = nn::layer_norm(model, x), rms = nn::rms_norm(model, x),
               groups = nn::group_norm(model, x, 2);
  CHECK(parameter_names(model) == Names{"layer_norm/gamma", "layer_norm/beta", "rms_norm/gamma",
                                        "group_norm/gamma", "group_norm/beta"});
  const Tensor gamma = sines({4}, 1, 1), beta = sines({4}, 2, 2);
  const FedValues feeds = feed_parameters(graph, {{"layer_norm/gamma", gamma},
                                                  {"layer_norm/beta", beta},
                                                  {"rms_norm/gamma", gamma},
                                                  {"group_norm/gamma", gamma},
                                                  {"group_norm/beta", beta}});
  const Output g = constant(graph, gamma), b = constant(graph, beta);
  CHECK(same_bits(evaluate(layer, feeds), evaluate(layer_norm(x, g, b))));
  CHECK(same_bits(evaluate(rms, feeds), evaluate(rms_norm(x, g, 1e-5))));
  CHECK(same_bits(evaluate(groups, feeds), evaluate(group_norm(x, g, b, 2))));
}

TEST_CASE("dropout drops in training alone, and other elements in each layer and pass") {
  Graph graph;
  const Output x = constant(graph, Tensor::of<double>(std::vector<double>(1000, 1), {1000}));
  nn::Model training(graph, {.training = true}), inference(graph);
  CHECK(nn::dropout(inference, x, 0.5).is(x));
  CHECK(nn::dropout(training, x, 0).is(x));
  const Tensor a = evaluate(nn::dropout(training, x, 0.25)),
               b = evaluate(nn::dropout(training, x, 0.25));
  CHECK(!same_bits(a, b));
  int64_t dropped = 0;
  for (double v : a.values<double>()) {
    CHECK((v == 0 || v == doctest::Approx(1 / 0.75)));
    dropped += v == 0;
  }
  CHECK((dropped > 200 && dropped < 300));
  training.rewind();
  nn::dropout(training, x, 0);
  CHECK(!same_bits(a, evaluate(nn::dropout(training, x, 0.25))));
  Graph other;  // the same layer of the same model elsewhere
  const auto tower = other.scope({.name = "tower"});
  nn::Model again(other, {.training = true});
  const Output same = constant(other, Tensor::of<double>(std::vector<double>(1000, 1), {1000}));
  nn::dropout(again, same, 0);
  CHECK(same_bits(a, evaluate(nn::dropout(again, same, 0.25))));
}

TEST_CASE("flatten makes one dimension of all but the first") {
  Graph graph;
  CHECK(nn::flatten(placeholder(graph, DType::f32, {-1, 2, 3})).shape() == Shape{-1, 6});
  CHECK(nn::flatten(constant(graph, Tensor::zeros(DType::i32, {4}))).shape() == Shape{4, 1});
  CHECK(evaluate(nn::flatten(constant(graph, Tensor::zeros(DType::f32, {0, 2, 3})))).shape() ==
        Shape{0, 6});
}

TEST_CASE("layers refuse what does not fit, at the caller's line") {
  Graph graph, other;
  nn::Model model(graph);
  const Output x = placeholder(graph, DType::f32, {-1, 3}, "x"),
               unknown = placeholder(graph, DType::f32, {2, -1}),
               ids = placeholder(graph, DType::i64, {-1}),
               strange = placeholder(other, DType::f32, {2, 3});
  const auto refused = [](auto&& call, const char* text) {
    check_invalid(call, text, "nn_layers_test.cpp");
  };
  refused([&] { nn::dense(model, {}, 2); }, "reads an undefined Output");
  refused([&] { nn::dense(model, strange, 2); }, "of another graph than its model's");
  refused([&] { nn::dense(model, x, 0); }, "wants at least one unit, got 0");
  refused([&] { nn::dense(model, unknown, 2); }, "the last size of [2, -1] must be known");
  refused([&] { nn::dense(model, ids, 2); },
          "wants floats with at least 2 dimensions, got i64[-1]");
  refused([&] { nn::conv2d(model, x, 2, 3); }, "wants floats with 4 dimensions, got f32[-1, 3]");
  refused([&] { nn::embedding(model, ids, 0, 3); }, "wants at least one row");
  refused([&] { nn::dropout(model, x, 1); }, "wants a rate in [0, 1), got 1");
  refused([&] { nn::group_norm(model, x, 2); }, "that divides the 3 channels, got 2");
  refused([&] { nn::batch_norm(model, x, {.decay = 1}); }, "wants a decay in [0, 1), got 1");
  refused(
      [&] {
        nn::flatten(placeholder(graph, DType::f32, {2, -1, 3}));
      },
      "the sizes of [2, -1, 3] but the first must be known");
  nn::dense(model, x, 2, {.name = "twice"});
  refused([&] { nn::dense(model, x, 4, {.name = "twice"}); }, "give it the same initial shape");
  refused([&] { nn::dense(model, x, 2, {.regularizer = {.l1 = -1}}); },
          "wants numbers from 0, got -1");
}

}  // namespace troupe
