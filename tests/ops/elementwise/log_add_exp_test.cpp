// LogAddExp.
#include <doctest/doctest.h>

#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

OpCases cases() {
  return binary_cases("LogAddExp", i32(zeros({2})),
                      {
                          {.name = "same shape",
                           .inputs = {vector({0, 1, -3, 0.1}), vector({0, 2, 0.5, 0.1})},
                           .expected = {vector({0.6931471805599453, 2.313261687518223,
                                                0.5297504182726206, 0.7931471805599453})}},
                          {.name = "size one",
                           .inputs = {vector({0}), vector({0})},
                           .expected = {vector({0.6931471805599453})}},
                          {.name = "rows with a row",
                           .inputs = {matrix({{1, 2}, {-3, 0.5}}), vector({2, 1})},
                           .expected = {matrix({{2.313261687518223, 2.313261687518223},
                                                {2.0067153484891180, 1.4740769841801067}})}},
                          {.name = "every element with a scalar",
                           .inputs = {scalar(1), vector({2, 0.5})},
                           .expected = {vector({2.313261687518223, 1.4740769841801067})}},
                          {.name = "powers that no dtype holds",
                           .inputs = {vector({1000, -1000, 50}), vector({1000, -1001, -50})},
                           .expected = {vector({1000.6931471805599, -999.68673831248178, 50})}},
                          {.name = "infinities and NaN",
                           .inputs = {vector({INFINITY, INFINITY, -INFINITY, -INFINITY, 1, NAN}),
                                      vector({INFINITY, -INFINITY, -INFINITY, 2, INFINITY, 1})},
                           .expected = {vector({INFINITY, INFINITY, -INFINITY, 2, INFINITY, NAN})},
                           .smooth = false},
                      });
}
const ListedCases listed(cases);

}  // namespace

TEST_CASE("LogAddExp adds in the domain of logarithms") { check(cases()); }

TEST_CASE("equal infinities share the gradient of LogAddExp") {
  Graph graph;
  const Output a = placeholder(graph, DType::f64, Shape{4}),
               b = placeholder(graph, DType::f64, {4});
  const auto slopes = gradients({log_add_exp(a, b)}, {a, b});
  const FedValues feeds = {{a, vector({-INFINITY, INFINITY, -INFINITY, NAN})},
                           {b, vector({-INFINITY, INFINITY, 3, 1})}};
  CHECK(!difference(evaluate(slopes[0], feeds), vector({0.5, 0.5, 0, NAN})));
  CHECK(!difference(evaluate(slopes[1], feeds), vector({0.5, 0.5, 1, NAN})));
}

}  // namespace troupe
