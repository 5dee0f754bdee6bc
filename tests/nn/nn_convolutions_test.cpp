// Convolution layers of all kinds: each is its op with parameters of its own, whose initial values
// depend on the inputs and outputs of one filter.

#include "tests/support/parameters.hpp"
#include "tests/support/refusal.hpp"

namespace troupe {
namespace {

// y with another number added to each channel.
Tensor with_bias(const Tensor& y, const std::vector<double>& bias) {
  Tensor out = Tensor::empty(DType::f64, y.shape());
  for (int64_t i = 0; i < y.size(); ++i)
    out.mutable_data<double>()[i] =
        y.data<double>()[i] + bias[static_cast<size_t>(i) % bias.size()];
  return out;
}

double variance(const Tensor& x) {
  double sum = 0;
  for (double v : x.values<double>()) sum += v * v;
  return sum / static_cast<double>(x.size());
}

}  // namespace

TEST_CASE("a convolution layer is convolution() with a bias, in one to three dimensions") {
  Graph graph;
  nn::Model model(graph);
  const Output line = constant(graph, sines({2, 7, 4}, 0.3, 1)),
               volume = constant(graph, sines({1, 4, 3, 5, 2}, 0.2, 2));
  const ConvolutionOptions grouped = {.strides = {2}, .dilations = {2}, .groups = 2};
  const Output y = nn::convolution(model, line, 6, {3}, grouped, {.name = "line"});
  const Output z = nn::convolution(model, volume, 3, {2, 3, 1}, {.padding = Padding::valid},
                                   {.bias = false, .name = "volume"});
  CHECK(model.parameters().size() == 3);
  const Tensor w = sines({3, 2, 6}, 0.7, 0.1), v = sines({2, 3, 1, 2, 3}, 0.6, 0.2);
  const FedValues feeds =
      feed_parameters(graph, {{"line/w", w}, {"line/b", sines({6}, 1, 0)}, {"volume/w", v}});
  const Tensor b = feeds.at(model.parameters()[1]);
  CHECK(same_bits(evaluate(y, feeds),
                  with_bias(evaluate(convolution(line, constant(graph, w), grouped)),
                            {b.values<double>().begin(), b.values<double>().end()})));
  CHECK(same_bits(evaluate(z, feeds),
                  evaluate(convolution(volume, constant(graph, v), {.padding = Padding::valid}))));
}

TEST_CASE("depthwise and transposed convolutions are layers, too") {
  Graph graph;
  nn::Model model(graph);
  const Output x = constant(graph, sines({2, 5, 4, 3}, 0.3, 1));
  const Output deep = nn::depthwise_convolution(model, x, 2, {3}, {}, {.bias = false});
  const Output back = nn::convolution_transpose(model, x, 4, {3, 2}, {.strides = {2}});
  CHECK(deep.shape() == Shape{2, 5, 4, 6});
  CHECK(back.shape() == Shape{2, 10, 8, 4});
  const Tensor w = sines({3, 3, 3, 2}, 0.7, 0.1), u = sines({3, 2, 4, 3}, 0.6, 0.2);
  const FedValues feeds = feed_parameters(graph, {{"depthwise_convolution/w", w},
                                                  {"convolution_transpose/w", u},
                                                  {"convolution_transpose/b", sines({4}, 1, 1)}});
  CHECK(same_bits(evaluate(deep, feeds), evaluate(depthwise_convolution(x, constant(graph, w)))));
  const Tensor b = sines({4}, 1, 1);
  CHECK(
      same_bits(evaluate(back, feeds),
                with_bias(evaluate(convolution_transpose(x, constant(graph, u), {.strides = {2}})),
                          {b.values<double>().begin(), b.values<double>().end()})));
}

TEST_CASE("first values count the inputs and outputs of one group, or of one channel") {
  Graph graph;
  nn::Model model(graph);
  const Output x = constant(graph, Tensor::zeros(DType::f64, {1, 8, 8, 64}));
  const nn::FilterOptions he = {.bias = false, .weights = nn::he_normal()};
  nn::convolution(model, x, 64, {3}, {.groups = 4}, he);
  nn::depthwise_convolution(model, x, 16, {5}, {}, he);
  nn::convolution_transpose(model, x, 32, {3}, {}, he);
  const FedValues first = feed_parameters(graph);
  const auto of = [&](size_t i) { return variance(first.at(model.parameters()[i])); };
  CHECK(of(0) == doctest::Approx(2.0 / (9 * 16)).epsilon(0.05));
  CHECK(of(1) == doctest::Approx(2.0 / 25).epsilon(0.05));
  CHECK(of(2) == doctest::Approx(2.0 / (9 * 64)).epsilon(0.05));
}

TEST_CASE("convolution layers refuse what does not fit") {
  Graph graph;
  nn::Model model(graph);
  const Output x = placeholder(graph, DType::f32, {-1, 8, 8, 6}),
               flat = placeholder(graph, DType::f32, {-1, 6}),
               deep = placeholder(graph, DType::f32, {-1, 2, 2, 2, 2, 6});
  const auto refused = [](auto&& call, const char* text) {
    check_invalid(call, text, "nn_convolutions_test.cpp");
  };
  refused([&] { nn::convolution(model, flat, 2, {3}); }, "at least 3 dimensions");
  refused([&] { nn::convolution(model, deep, 2, {3}); }, "one to three dimensions");
  refused([&] { nn::convolution(model, x, 2, {3, 3, 3}); }, "one size, or of 2, got 3");
  refused([&] { nn::convolution(model, x, 2, {0}); }, "at least one pixel in a window");
  refused([&] { nn::convolution(model, x, 8, {3}, {.groups = 4}); }, "groups that divide the 6");
  refused([&] { nn::depthwise_convolution(model, x, 0, {3}); }, "one channel for each, got 0");
}

}  // namespace troupe
