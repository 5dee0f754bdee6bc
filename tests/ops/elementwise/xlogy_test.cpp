// Xlogy.
#include <doctest/doctest.h>

#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

OpCases cases() {
  return binary_cases(
      "Xlogy", i32(zeros({2})),
      {
          {.name = "same shape",
           .inputs = {vector({2, -1.5, 0.5, 3}), vector({3, 0.25, 10, 1})},
           .expected = {vector({2.1972245773362196, 2.0794415416798357, 1.151292546497023, 0})}},
          {.name = "size one",
           .inputs = {vector({2}), vector({3})},
           .expected = {vector({2.1972245773362196})}},
          {.name = "rows with a row",
           .inputs = {matrix({{2, -1.5}, {0, 1}}), vector({3, 0.25})},
           .expected = {matrix(
               {{2.1972245773362196, 2.0794415416798357}, {0, -1.3862943611198906}})}},
          {.name = "a scalar with every element",
           .inputs = {scalar(0.5), vector({10, 1})},
           .expected = {vector({1.151292546497023, 0})}},
          {.name = "0 of positive numbers",
           .inputs = {vector({0, 0}), vector({2, 0.5})},
           .expected = {vector({0, 0})}},
          {.name = "0 of others",
           .inputs = {vector({0, -0.0, 0, 0, 0}), vector({0, -1, INFINITY, -INFINITY, NAN})},
           .expected = {vector({0, 0, 0, 0, NAN})},
           .smooth = false},
          {.name = "no logarithm",
           .inputs = {vector({1, -1, 2, NAN, INFINITY}), vector({0, 0, -1, 1, 2})},
           .expected = {vector({-INFINITY, INFINITY, NAN, NAN, INFINITY})},
           .smooth = false},
      });
}
const ListedCases listed(cases);

}  // namespace

TEST_CASE("Xlogy is 0 where its first factor is") { check(cases()); }

TEST_CASE("the gradient of Xlogy is 0 at the origin") {
  Graph graph;
  const Output a = placeholder(graph, DType::f64, Shape{3}),
               b = placeholder(graph, DType::f64, {3});
  const auto slopes = gradients({xlogy(a, b)}, {a, b});
  const FedValues feeds = {{a, vector({0, 0, 1})}, {b, vector({0, 1, 0})}};
  CHECK(!difference(evaluate(slopes[0], feeds), vector({0, 0, -INFINITY})));
  CHECK(!difference(evaluate(slopes[1], feeds), vector({0, 0, INFINITY})));
}

}  // namespace troupe
