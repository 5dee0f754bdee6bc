// Minimum.
#include <doctest/doctest.h>

#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

OpCases cases() {
  return binary_cases("Minimum", booleans(zeros({2})),
                      {
                          {.name = "same shape",
                           .inputs = {vector({5, -7, 9}), vector({1, 2, 30})},
                           .expected = {vector({1, -7, 9})}},
                          {.name = "size one",
                           .inputs = {vector({0.5}), vector({2.5})},
                           .expected = {vector({0.5})}},
                          {.name = "a row with every row",
                           .inputs = {matrix({{1, 2}, {3, 4}}), vector({2, 3})},
                           .expected = {matrix({{1, 2}, {2, 3}})}},
                          {.name = "against a scalar",
                           .inputs = {vector({1, 2, 3}), scalar(2.5)},
                           .expected = {vector({1, 2, 2.5})}},
                          {.name = "of equals either",
                           .inputs = {vector({1}), vector({1})},
                           .expected = {vector({1})},
                           .smooth = false},
                          {.name = "NaN on either side",
                           .inputs = {vector({NAN, 1, NAN}), vector({1, NAN, NAN})},
                           .expected = {vector({NAN, NAN, NAN})},
                           .smooth = false},
                          {.name = "infinities",
                           .inputs = {vector({-INFINITY, INFINITY}), vector({1, 1})},
                           .expected = {vector({-INFINITY, 1})},
                           .smooth = false},
                      });
}
const ListedCases listed(cases);

}  // namespace

TEST_CASE("Minimum chooses the less, and NaN") { check(cases()); }

TEST_CASE("of equals, the first gets the gradient of Minimum") {
  Graph graph;
  const Output a = placeholder(graph, DType::f64, Shape{2}),
               b = placeholder(graph, DType::f64, {2});
  const auto slopes = gradients({minimum(a, b)}, {a, b});
  const FedValues feeds = {{a, vector({1, 3})}, {b, vector({1, 2})}};
  CHECK(!difference(evaluate(slopes[0], feeds), vector({1, 0})));
  CHECK(!difference(evaluate(slopes[1], feeds), vector({0, 1})));
}

}  // namespace troupe
