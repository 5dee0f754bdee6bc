// LogSumExp.
#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

const Table table("LogSumExp adds in the domain of logarithms", [] {
  const Tensor x = matrix({{1, 2, 3}, {-1, 0.5, 2}});
  return table_of(
      "LogSumExp",
      {
          Case("everything", {x}, {scalar(3.6787920383148909)}),
          Case("rows", {x}, {vector({3.4076059644443803, 2.2413112966571571})}, over({1})),
          Case("columns", {x},
               {vector({1.1269280110429725, 2.2014132779827524, 3.3132616875182228})}, over({0})),
          Case("keeping dimensions", {x}, {matrix({{3.4076059644443803}, {2.2413112966571571}})},
               over({-1}, true)),
          Case("first and last",
               {values({2, 3, 2}, {0.25, 1.25, 0.5, 1.5, 0.75, 1, 2.25, 0, 1.75, 2, 2.75, 2.5})},
               {vector({2.7253729069471381, 2.9587606233920847, 3.4861635703169308})},
               over({0, 2})),
          Case("size one", {vector({-700.5})}, {scalar(-700.5)}, over({0})),
          Case("powers that no dtype holds", {matrix({{1000, 1001}, {-1000, -1000}})},
               {vector({1001.3132616875182, -999.30685281944005})}, over({1}))
              .slopes_within(1e-5),
          Case("a long row", {iota({1100}, -5, 0.01)}, {scalar(10.600149317484632)}).rough(),
          Case("long columns", {full({1000, 2}, 3)},
               {vector({9.9077552789821371, 9.9077552789821371})}, over({0}))
              .rough(),
          Case("nothing to add", {zeros({2, 0})}, {vector({-INFINITY, -INFINITY})}, over({1}))
              .rough(),
          Case("no rows", {zeros({0, 2})}, {zeros({0})}, over({1})),
          Case("infinities and NaN",
               {matrix({{INFINITY, 1},
                        {-INFINITY, 2},
                        {-INFINITY, -INFINITY},
                        {INFINITY, -INFINITY},
                        {INFINITY, INFINITY},
                        {NAN, 1},
                        {NAN, INFINITY}})},
               {vector({INFINITY, 2, -INFINITY, INFINITY, INFINITY, NAN, NAN})}, over({1}))
              .rough(),
      },
      {
          Refused({zeros({2, 3})}, "axis 2 is not there: with 2 dimensions, axes go from -2 to 1",
                  over({2})),
          Refused({zeros({2, 3})}, "names axis -1 twice", over({1, -1})),
          Refused({i32(zeros({2}))}, "has no kernel for i32; cast to one of f32, f64", over({})),
      });
});

}  // namespace

TEST_CASE("the gradient of LogSumExp is 0 where all powers are") {
  Graph graph;
  const Output x = placeholder(graph, DType::f64, Shape{3, 2});
  const Output dx = gradients({log_sum_exp(x, {.axes = {1}})}, {x})[0];
  const Tensor at = matrix({{-INFINITY, -INFINITY}, {-INFINITY, 1}, {7, 7}});
  CHECK(!difference(evaluate(dx, {{x, at}}), matrix({{0, 0}, {0, 1}, {0.5, 0.5}})));
}

TEST_CASE("a row of LogSumExp has the same bits wherever it stands") {
  Graph graph;
  const Output x = placeholder(graph, DType::f32, Shape{-1, 700});
  const Output y = log_sum_exp(x, {.axes = {1}});
  const Tensor row = f32(waves({1, 700}, 0.3));
  const float alone = evaluate(y, {{x, row}}).item<float>();
  const Tensor many = evaluate(y, {{x, evaluate(broadcast_to(x, {5, 700}), {{x, row}})}});
  for (float value : many.values<float>()) CHECK(value == alone);
}

}  // namespace troupe
