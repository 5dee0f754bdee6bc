// norm, moments and l2_normalize, which are composed of other ops.
#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

OpCase norm_of(std::string name, Tensor x, double order, ReduceOptions options, Tensor expected) {
  return {.name = std::move(name),
          .op = "ReduceMean",  // it has the same dtypes, f32 and f64
          .inputs = {x},
          .expected = {expected},
          .build = [order, options](Graph&, const std::vector<Output>& inputs) {
            return std::vector<Output>{norm(inputs[0], order, options)};
          }};
}

OpCases norm_cases() {
  const Tensor x = matrix({{1, -2, 3}, {4, 0.5, -6}});
  OpCases all = {
      .values = {
          norm_of("order 1", x, 1, {}, scalar(16.5)),
          norm_of("order 1 of rows", x, 1, {.axes = {1}}, vector({6, 10.5})),
          norm_of("order 2 of rows", x, 2, {.axes = {-1}},
                  vector({3.7416573867739414, 7.2284161474004802})),
          norm_of("order 2 of rows, kept", x, 2, {.axes = {1}, .keep_dims = true},
                  matrix({{3.7416573867739414}, {7.2284161474004802}})),
          norm_of("order infinity", x, INFINITY, {}, scalar(6)),
          norm_of("order infinity of columns", x, INFINITY, {.axes = {0}}, vector({4, 2, 6})),
          norm_of("size one", vector({-3}), 2, {}, scalar(3)),
          norm_of("order 1 of nothing", zeros({2, 0}), 1, {.axes = {1}}, vector({0, 0})),
          norm_of("order 2 of nothing", zeros({2, 0}), 2, {.axes = {1}}, vector({0, 0})),
          norm_of("order 2 without rows", zeros({0, 2}), 2, {.axes = {1}}, zeros({0})),
      }};
  for (const double order : {1.0, 2.0, double{INFINITY}}) {
    all.values.push_back(norm_of("NaN and infinity", matrix({{NAN, 1}, {-INFINITY, 1}, {0, 0}}),
                                 order, {.axes = {1}}, vector({NAN, INFINITY, 0})));
    all.values.back().smooth = false;
  }
  return all;
}

OpCase moments_of(std::string name, Tensor x, ReduceOptions options, Tensor mean, Tensor variance) {
  return Case("ReduceMean", std::move(name), {x}, {mean, variance})
      .made_by([options](Graph&, const std::vector<Output>& inputs) {
        const Moments m = moments(inputs[0], options);
        return std::vector<Output>{m.mean, m.variance};
      });
}

OpCases moments_cases() {
  const Tensor x = matrix({{1.5, -2, 3}, {4, 0.5, -6}});
  OpCases all = {
      .values = {
          moments_of("everything", x, {}, scalar(0.16666666666666667), scalar(11.222222222222222)),
          moments_of("rows", x, {.axes = {1}}, vector({0.83333333333333333, -0.5}),
                     vector({4.3888888888888889, 17.166666666666667})),
          moments_of("columns, kept", x, {.axes = {0}, .keep_dims = true},
                     matrix({{2.75, -0.75, -1.5}}), matrix({{1.5625, 1.5625, 20.25}})),
          moments_of("size one", vector({7}), {}, scalar(7), scalar(0)),
          moments_of("no rows", zeros({0, 2}), {.axes = {1}}, zeros({0}), zeros({0})),
          moments_of("of nothing", zeros({2, 0}), {.axes = {1}}, vector({NAN, NAN}),
                     vector({NAN, NAN})),
      }};
  all.values.back().smooth = false;
  return all;
}

BuildCase normalized_over(Ints axes, double epsilon = 1e-12) {
  return [=](Graph&, const std::vector<Output>& in) {
    return std::vector{l2_normalize(in[0], axes, epsilon)};
  };
}

const Table l2_normalize_table("l2_normalize makes vectors of length 1", [] {
  return table_of(
      "Sqrt",
      {Case("rows", {matrix({{3, 4}, {-5, 12}})},
            {matrix({{0.6, 0.8}, {-0.38461538461538464, 0.9230769230769231}})})
           .made_by(normalized_over({-1})),
       Case("columns", {matrix({{3, -5}, {4, 12}})},
            {matrix({{0.6, -0.38461538461538464}, {0.8, 0.9230769230769231}})})
           .made_by(normalized_over({0})),
       Case("all", {matrix({{1, 1}, {-1, 1}})}, {matrix({{0.5, 0.5}, {-0.5, 0.5}})})
           .made_by(normalized_over({})),
       Case("size one", {vector({-3})}, {vector({-1})}).made_by(normalized_over({0})),
       Case("0 stays 0, with a gradient", {vector({0, 0})}, {vector({0, 0})})
           .made_by(normalized_over({0}, 0.25)),
       Case("short of epsilon", {vector({0.25, -0.125})}, {vector({0.5, -0.25})})
           .made_by(normalized_over({0}, 0.25)),
       Case("NaN spreads in its row", {matrix({{NAN, 1}, {0, 1}})}, {matrix({{NAN, NAN}, {0, 1}})})
           .rough()
           .made_by(normalized_over({-1})),
       Case("empty", {zeros({2, 0})}, {zeros({2, 0})}).made_by(normalized_over({-1}))},
      {Refused({vector({1})}, "wants epsilon > 0, got 0").made_by(normalized_over({0}, 0)),
       Refused({vector({1})}, "axis 1 is not there").made_by(normalized_over({1})),
       Refused({i32(vector({1}))}, "wants f32 or f64, got i32; cast it")
           .made_by(normalized_over({0}))});
});

}  // namespace

TEST_CASE("norm has the orders 1, 2 and infinity") { check(norm_cases()); }

TEST_CASE("another order is refused") {
  Graph graph;
  const Output x = placeholder(graph, DType::f32, Shape{2});
  CHECK_THROWS_WITH_AS(norm(x, 3), doctest::Contains("has no order 3; the orders are"), Error);
}

TEST_CASE("norms of whole numbers") {
  Graph graph;
  const Output n = placeholder(graph, DType::i32, Shape{3});
  const FedValues feeds = {{n, i32(vector({1, -5, 2}))}};
  CHECK(same_bits(evaluate(norm(n, 1), feeds), i32(scalar(8))));
  CHECK(same_bits(evaluate(norm(n, INFINITY), feeds), i32(scalar(5))));
}

TEST_CASE("the gradient of a norm is 0 at the origin") {
  Graph graph;
  const Output x = placeholder(graph, DType::f64, Shape{2, 2});
  const FedValues feeds = {{x, matrix({{0, 0}, {3, -4}})}};
  const auto slopes_at = [&](double order) {
    return evaluate(gradients({norm(x, order, {.axes = {1}})}, {x})[0], feeds);
  };
  CHECK(!difference(slopes_at(1), matrix({{0, 0}, {1, -1}})));
  CHECK(!difference(slopes_at(2), matrix({{0, 0}, {0.6, -0.8}})));
  CHECK(!difference(slopes_at(INFINITY), matrix({{0, 0}, {0, -1}})));
}

TEST_CASE("moments are mean and variance") { check(moments_cases()); }

TEST_CASE("a variance loses nothing beside a large mean") {
  Graph graph;
  const Output x = placeholder(graph, DType::f64, Shape{4}), y = cast(x, DType::f32);
  const FedValues large = {{x, vector({1e8 + 1, 1e8 + 2, 1e8 + 3, 1e8 + 4})}};
  CHECK(evaluate(moments(x).variance, large).item<double>() == 1.25);
  const FedValues less = {{x, vector({4001, 4002, 4003, 4004})}};
  CHECK(evaluate(moments(y).variance, less).item<float>() == 1.25F);
}

}  // namespace troupe
