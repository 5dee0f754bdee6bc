// Pow.
#include <doctest/doctest.h>

#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

// x^power, so that only x is differentiated.
BuildCase to_the(double power) {
  return [power](Graph& graph, const std::vector<Output>& x) {
    return std::vector<Output>{pow(x[0], fill(graph, Shape{}, power, x[0].dtype()))};
  };
}

OpCases cases() {
  OpCases all = binary_cases(
      "Pow", booleans(zeros({2})),
      {
          {.name = "whole numbers",
           .inputs = {vector({2, 3, 1, 10, 2}), vector({3, 2, 0, 2, 7})},
           .expected = {vector({8, 9, 1, 100, 128})}},
          {.name = "broken numbers",
           .inputs = {vector({2, 0.3, 1.5, 3}), vector({0.5, 2.5, -2.25, 0.3333333333333333})},
           .expected = {vector({1.4142135623730951, 0.049295030175464945, 0.40160089049326436,
                                1.4422495703074083})}},
          {.name = "size one", .inputs = {vector({4}), vector({0.5})}, .expected = {vector({2})}},
          {.name = "rows to a row",
           .inputs = {matrix({{1, 2}, {3, 4}}), vector({2, 3})},
           .expected = {matrix({{1, 8}, {9, 64}})}},
          {.name = "a scalar to every element",
           .inputs = {scalar(2), vector({0, 1, 2, 3})},
           .expected = {vector({1, 2, 4, 8})}},
          {.name = "negative numbers to whole powers",
           .inputs = {vector({-3, -2, -1, -2}), vector({5, 3, 4, 0})},
           .expected = {vector({-243, -8, 1, 1})},
           .smooth = false},
          {.name = "zeros",
           .inputs = {vector({0, 0, 0}), vector({0, 2, 1})},
           .expected = {vector({1, 0, 0})},
           .smooth = false},
          {.name = "where C says so",
           .inputs = {vector({-2, 0, 1, NAN, NAN, -1, 2, INFINITY, -INFINITY, -8, 0.5}),
                      vector({0.5, -1, NAN, 0, 1, INFINITY, INFINITY, -1, 3, 0.25, -INFINITY})},
           .expected = {vector(
               {NAN, INFINITY, 1, 1, NAN, 1, INFINITY, 0, -INFINITY, NAN, INFINITY})},
           .smooth = false},
          {.name = "too large and too small",
           .inputs = {vector({1e200, 1e-200, 10}), vector({2, 2, 300})},
           .expected = {vector({INFINITY, 0, 1e300})},
           .smooth = false},
          {.name = "a square, also at 0",
           .inputs = {vector({-1.5, 0, 2})},
           .expected = {vector({2.25, 0, 4})},
           .build = to_the(2)},
          {.name = "a cube of negative numbers",
           .inputs = {vector({-2, 0.5})},
           .expected = {vector({-8, 0.125})},
           .build = to_the(3)},
          {.name = "no power",
           .inputs = {vector({-1, 0, 3})},
           .expected = {vector({1, 1, 1})},
           .build = to_the(0)},
          {.name = "i32 wraps around",
           .inputs = {i32(vector({3, 2, 2, 5, -5})), i32(vector({21, 31, 32, 13, 13}))},
           .expected = {i32(vector({1870418611, -2147483648.0, 0, 1220703125, -1220703125}))},
           .as_written = true},
          {.name = "u8 wraps around",
           .inputs = {u8(vector({7, 255})), u8(vector({5, 255}))},
           .expected = {u8(vector({167, 255}))},
           .as_written = true},
      });
  all.errors.push_back({.op = "Pow",
                        .inputs = {i32(vector({1, 2})), i32(vector({1, -1}))},
                        .message = "raises an integer to a negative power: element 1 of b is -1",
                        .when_run = true});
  return all;
}
const ListedCases listed(cases);

}  // namespace

TEST_CASE("Pow raises to powers, and refuses negative ones of integers") { check(cases()); }

TEST_CASE("i64 powers wrap around") {
  Graph graph;
  const Output x = placeholder(graph, DType::i64, Shape{}), n = placeholder(graph, DType::i64, {});
  CHECK(evaluate(pow(x, n), {{x, i64(scalar(3))}, {n, i64(scalar(40))}}).item<int64_t>() ==
        -6289078614652622815);
}

TEST_CASE("Pow has no slope in the exponent of 0 and of negative numbers") {
  Graph graph;
  const Output a = placeholder(graph, DType::f64, Shape{4}),
               b = placeholder(graph, DType::f64, {4});
  const auto slopes = gradients({pow(a, b)}, {a, b});
  const FedValues feeds = {{a, vector({0, 0, -2, 0})}, {b, vector({0, 2, 3, -1})}};
  CHECK(!difference(evaluate(slopes[0], feeds), vector({0, 0, 12, -INFINITY})));
  CHECK(!difference(evaluate(slopes[1], feeds), vector({0, 0, 0, 0})));
}

}  // namespace troupe
