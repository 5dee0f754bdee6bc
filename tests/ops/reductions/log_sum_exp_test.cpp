// LogSumExp.
#include <doctest/doctest.h>

#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

Attrs over(std::vector<int64_t> axes, bool keep_dims = false) {
  return {{"axes", std::move(axes)}, {"keep_dims", keep_dims}};
}

OpCases cases() {
  const Tensor x = matrix({{1, 2, 3}, {-1, 0.5, 2}});
  return {
      .values =
          {
              {.name = "everything",
               .op = "LogSumExp",
               .inputs = {x},
               .expected = {scalar(3.6787920383148909)}},
              {.name = "rows",
               .op = "LogSumExp",
               .inputs = {x},
               .attrs = over({1}),
               .expected = {vector({3.4076059644443803, 2.2413112966571571})}},
              {.name = "columns",
               .op = "LogSumExp",
               .inputs = {x},
               .attrs = over({0}),
               .expected = {vector({1.1269280110429725, 2.2014132779827524, 3.3132616875182228})}},
              {.name = "keeping dimensions",
               .op = "LogSumExp",
               .inputs = {x},
               .attrs = over({-1}, true),
               .expected = {matrix({{3.4076059644443803}, {2.2413112966571571}})}},
              {.name = "first and last",
               .op = "LogSumExp",
               .inputs = {values({2, 3, 2},
                                 {0.25, 1.25, 0.5, 1.5, 0.75, 1, 2.25, 0, 1.75, 2, 2.75, 2.5})},
               .attrs = over({0, 2}),
               .expected = {vector({2.7253729069471381, 2.9587606233920847, 3.4861635703169308})}},
              {.name = "size one",
               .op = "LogSumExp",
               .inputs = {vector({-700.5})},
               .attrs = over({0}),
               .expected = {scalar(-700.5)}},
              {.name = "powers that no dtype holds",
               .op = "LogSumExp",
               .inputs = {matrix({{1000, 1001}, {-1000, -1000}})},
               .attrs = over({1}),
               .expected = {vector({1001.3132616875182, -999.30685281944005})},
               .gradient_tolerance = 1e-5},
              {.name = "a long row",
               .op = "LogSumExp",
               .inputs = {iota({1100}, -5, 0.01)},
               .expected = {scalar(10.600149317484632)},
               .smooth = false},
              {.name = "long columns",
               .op = "LogSumExp",
               .inputs = {full({1000, 2}, 3)},
               .attrs = over({0}),
               .expected = {vector({9.9077552789821371, 9.9077552789821371})},
               .smooth = false},
              {.name = "nothing to add",
               .op = "LogSumExp",
               .inputs = {zeros({2, 0})},
               .attrs = over({1}),
               .expected = {vector({-INFINITY, -INFINITY})},
               .smooth = false},
              {.name = "no rows",
               .op = "LogSumExp",
               .inputs = {zeros({0, 2})},
               .attrs = over({1}),
               .expected = {zeros({0})}},
              {.name = "infinities and NaN",
               .op = "LogSumExp",
               .inputs = {matrix({{INFINITY, 1},
                                  {-INFINITY, 2},
                                  {-INFINITY, -INFINITY},
                                  {INFINITY, -INFINITY},
                                  {INFINITY, INFINITY},
                                  {NAN, 1},
                                  {NAN, INFINITY}})},
               .attrs = over({1}),
               .expected = {vector({INFINITY, 2, -INFINITY, INFINITY, INFINITY, NAN, NAN})},
               .smooth = false},
          },
      .errors = {
          {.op = "LogSumExp",
           .inputs = {zeros({2, 3})},
           .attrs = over({2}),
           .message = "axis 2 is not there: with 2 dimensions, axes go from -2 to 1"},
          {.op = "LogSumExp",
           .inputs = {zeros({2, 3})},
           .attrs = over({1, -1}),
           .message = "names axis -1 twice"},
          {.op = "LogSumExp",
           .inputs = {i32(zeros({2}))},
           .attrs = over({}),
           .message = "has no kernel for i32; cast to one of f32, f64"},
      }};
}
const ListedCases listed(cases);

}  // namespace

TEST_CASE("LogSumExp adds in the domain of logarithms") { check(cases()); }

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
