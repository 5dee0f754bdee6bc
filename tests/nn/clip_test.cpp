// Clipping, weight decay and penalties: their values against numbers from NumPy, and their
// refusals.

#include <cmath>
#include <vector>

#include "tests/support/evaluate.hpp"
#include "tests/support/refusal.hpp"
#include "troupe/ops.hpp"
#include "troupe/optimizer.hpp"

namespace troupe {
namespace {

Tensor vector(std::vector<double> values) {
  return Tensor::of<double>(values, Shape{static_cast<int64_t>(values.size())});
}

void check_values(const Tensor& got, const std::vector<double>& wanted) {
  REQUIRE(got.size() == static_cast<int64_t>(wanted.size()));
  for (size_t i = 0; i < wanted.size(); ++i) {
    CAPTURE(i);
    CHECK(got.values<double>()[i] == doctest::Approx(wanted[i]).epsilon(1e-14));
  }
}

// Two parameters with given gradients.
struct Two {
  Graph graph;
  Output w = parameter("w", constant(graph, vector({1, 1, 1})));
  Output v = parameter("v", constant(graph, Tensor::of<double>({1, 1}, {1, 2})));
  std::vector<ParameterGradient> gradients = {
      {w, constant(graph, vector({3, -4, 0.5}))},
      {v, constant(graph, Tensor::of<double>({1, -2}, {1, 2}))}};
};

}  // namespace

TEST_CASE("clip_by_norm scales to the norm, and leaves what is shorter as it is") {
  Graph graph;
  const Output x = constant(graph, vector({3, -4, 0.5}));
  check_values(evaluate(clip_by_norm(x, 2)),
               {1.194044628251987, -1.5920595043359826, 0.19900743804199783});
  for (double norm : {5.1, 1e30})
    CHECK(same_bits(evaluate(clip_by_norm(x, norm)), vector({3, -4, 0.5})));
  const Output short_one = constant(graph, Tensor::of<float>({0.1F, 0.7F}, {2}));
  CHECK(same_bits(evaluate(clip_by_norm(short_one, 0.8)), Tensor::of<float>({0.1F, 0.7F}, {2})));
  check_values(evaluate(clip_by_norm(constant(graph, vector({0, 0})), 1e-200)), {0, 0});
}

TEST_CASE("clip_by_norm can be differentiated, at zero too") {
  Graph graph;
  const Output x = constant(graph, vector({3, -4, 0.5})), c = constant(graph, vector({1, 2, 3}));
  const auto slope = [&](Output at, double norm) {
    return evaluate(gradients({reduce_sum(multiply(c, clip_by_norm(at, norm)))}, {at})[0]);
  };
  check_values(slope(x, 2), {0.56352601267338, 0.5753482367154789, 1.221629817683551});
  check_values(slope(x, 50), {1, 2, 3});
  check_values(slope(constant(graph, vector({0, 0, 0})), 2), {1, 2, 3});
}

TEST_CASE("clip_by_global_norm scales all gradients by one norm") {
  Two two;  // the norm is 5.5
  const auto clipped = clip_by_global_norm(two.gradients, 1.5);
  REQUIRE(clipped.size() == 2);
  CHECK(clipped[1].parameter.is(two.v));
  CHECK(clipped[1].gradient.shape() == Shape{1, 2});
  check_values(evaluate(clipped[0].gradient),
               {0.8181818181818182, -1.0909090909090908, 0.13636363636363635});
  check_values(evaluate(clipped[1].gradient), {0.2727272727272727, -0.5454545454545454});
  const auto kept = clip_by_global_norm(two.gradients, 5.5);
  CHECK(same_bits(evaluate(kept[0].gradient), vector({3, -4, 0.5})));
}

TEST_CASE("a global norm is of gradients of both dtypes") {
  Two two;
  const Output u = parameter("u", constant(two.graph, Tensor::of<float>({1}, {1})));
  two.gradients.push_back({u, constant(two.graph, Tensor::of<float>({std::sqrt(5.75F)}, {1}))});
  const auto clipped = clip_by_global_norm(two.gradients, 3);  // 30.25 + 5.75 is 6 squared
  CHECK(clipped[2].gradient.dtype() == DType::f32);
  CHECK(evaluate(clipped[0].gradient).values<double>()[0] == doctest::Approx(1.5).epsilon(1e-6));
  CHECK(evaluate(clipped[2].gradient).values<float>()[0] ==
        doctest::Approx(std::sqrt(5.75) / 2).epsilon(1e-6));
}

TEST_CASE("each gradient is clipped by itself where there is no global norm") {
  Two two;
  const auto by_value = clip_by_value(two.gradients, -1, 1);
  check_values(evaluate(by_value[0].gradient), {1, -1, 0.5});
  check_values(evaluate(by_value[1].gradient), {1, -1});
  const auto by_norm = clip_by_norm(two.gradients, 2);
  check_values(evaluate(by_norm[0].gradient),
               {1.194044628251987, -1.5920595043359826, 0.19900743804199783});
  check_values(evaluate(by_norm[1].gradient), {2 / std::sqrt(5), -4 / std::sqrt(5)});
}

TEST_CASE("a norm that is not finite fails the step, and says which") {
  Graph graph;
  const auto refused = [&](Tensor value) {
    const Output clipped = clip_by_norm(constant(graph, std::move(value)), 1);
    CHECK_THROWS_WITH_AS(evaluate(clipped), doctest::Contains("the squared norm that clip_by_norm"),
                         Error);
  };
  refused(vector({1, NAN}));
  refused(vector({1, INFINITY}));
  refused(vector({1e200, 0}));
}

TEST_CASE("weight decay adds a part of the parameter to its gradient") {
  Two two;
  const auto decayed = add_weight_decay(two.gradients, 0.5);
  const FedValues values = {{two.w, vector({2, 4, -8})}};
  check_values(evaluate(decayed[0].gradient, values), {4, -2, -3.5});
}

TEST_CASE("penalties are sums over all parameters, with the gradients of their formulas") {
  Graph graph;
  const Output w = parameter("w", constant(graph, vector({0, 0, 0})));
  const Output v = parameter("v", constant(graph, Tensor::scalar(0.0)));
  const FedValues values = {{w, vector({-3, 0, 2})}, {v, Tensor::scalar(-0.5)}};
  const Output l1 = l1_penalty({w, v}, 0.1), l2 = l2_penalty({w, v}, 0.1);
  CHECK(evaluate(l1, values).item<double>() == doctest::Approx(0.55).epsilon(1e-14));
  CHECK(evaluate(l2, values).item<double>() == doctest::Approx(0.6625).epsilon(1e-14));
  check_values(evaluate(gradients({l1}, {w})[0], values), {-0.1, 0, 0.1});
  check_values(evaluate(gradients({l2}, {w})[0], values), {-0.3, 0, 0.2});
}

TEST_CASE("what cannot be clipped or penalised is refused at the caller's line") {
  Two two;
  const Output x = two.gradients[0].gradient,
               number = constant(two.graph, Tensor::scalar(int64_t{1}));
  const auto refused = [](auto&& call, const char* message) {
    CHECK_THROWS_WITH_AS(call(), doctest::Contains(message), Error);
  };
  refused([&] { clip_by_value(two.gradients, 2, 1); }, "wants low <= high, got 2 and 1");
  refused([&] { clip_by_value({{two.w, number}}, 0, 1); }, "wants f32 or f64, got i64");
  refused([&] { clip_by_value({{two.w, Output{}}}, 0, 1); }, "clip_by_value at ");
  refused([&] { clip_by_norm(x, 0); }, "wants a positive norm, got 0");
  refused([&] { clip_by_norm(Output{}, 1); }, "got an undefined Output");
  refused([&] { clip_by_global_norm(two.gradients, INFINITY); }, "clip_test.cpp:");
  refused([&] { clip_by_global_norm({}, 1); }, "got no gradients");
  refused([&] { clip_by_global_norm({{two.w, {}}}, 1); }, "got an undefined Output");
  refused([&] { add_weight_decay(two.gradients, -1); }, "wants a finite number from 0, got -1");
  refused([&] { add_weight_decay({{two.w, {}}}, 1); }, "got a gradient that is undefined");
  refused([&] { l1_penalty({}, 1); }, "got no parameters");
  refused([&] { l2_penalty({two.w}, NAN); }, "wants a finite number from 0, got nan");
  refused(
      [&] {
        l2_penalty({two.w, number}, 1);
      },
      "wants parameters of one floating dtype, got i64");
}

TEST_CASE("a moving average is a parameter beside its own, for the same replica") {
  Graph graph;
  const auto tower = graph.scope({.name = "tower1", .replica = 1});
  const Output w = parameter("fc/w", constant(graph, vector({1, 2})));
  const MovingAverage average = moving_average(w, 0.75);
  const Node& read = graph.node(average.value.node);
  CHECK(read.attr<std::string>("parameter") == "fc/w/average");
  CHECK(read.attr<int64_t>("replica") == 1);
  CHECK(read.attr<std::string>("initial") == graph.node(w.node).attr<std::string>("initial"));
  const Node& push = graph.node(average.update.node);
  CHECK(push.attr<std::string>("optimizer") == "sgd(learning rate 0.25)");
  check_values(evaluate(push.inputs[0], {{w, vector({1, 5})}, {average.value, vector({3, 1})}}),
               {2, -4});
  const size_t nodes = graph.nodes().size();
  const MovingAverage again = moving_average(w, 0.75);
  CHECK(again.value.is(average.value));
  CHECK(again.update.is(average.update));
  CHECK(graph.nodes().size() == nodes);
  const std::string refused = refusal_of([&] { moving_average(w, 0.5); }).text;
  CHECK(refused.find("parameter fc/w has an average of decay 0.75, made at ") != refused.npos);
  CHECK(refused.find(", got decay 0.5; a parameter has one average") != refused.npos);
  CHECK_THROWS_WITH_AS(moving_average(w, 1), doctest::Contains("wants a decay in [0, 1), got 1"),
                       Error);
  CHECK_THROWS_WITH_AS(moving_average(push.inputs[0], 0.5), doctest::Contains("wants a parameter"),
                       Error);
  CHECK_THROWS_WITH_AS(moving_average({}, 0.5), doctest::Contains("undefined Output"), Error);
}

}  // namespace troupe
