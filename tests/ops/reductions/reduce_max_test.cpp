// ReduceMax.
#include <doctest/doctest.h>

#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

OpCases cases() {
  return table_of(
      "ReduceMax",
      {
          Case("everything", {matrix({{1, 2, 3}, {4, 6, 5}})}, {scalar(6)}),
          Case("rows", {matrix({{1, 3, 2}, {4, 5, 6}})}, {vector({3, 6})}, over({1})),
          Case("columns", {matrix({{1, 5, 3}, {4, 2, 6}})}, {vector({4, 5, 6})}, over({0})),
          Case("keeping dimensions", {matrix({{1, 3, 2}, {4, 5, 6}})}, {matrix({{3}, {6}})},
               over({-1}, true)),
          Case("first and last", {values({2, 3, 2}, {1, 5, 2, 6, 3, 4, 9, 0, 7, 8, 11, 10})},
               {vector({9, 8, 11})}, over({0, 2})),
          Case("negative numbers", {vector({-3, -1.5, -2})}, {scalar(-1.5)}),
          Case("size one", {vector({1.5})}, {scalar(1.5)}, over({0})),
          Case("a long row", {iota({1000}, -500)}, {scalar(499)}).rough(),
          Case("no rows", {zeros({0, 2})}, {zeros({0})}, over({1})),
          Case("NaN among others", {matrix({{1, NAN}, {NAN, 1}, {INFINITY, 2}, {-INFINITY, -5}})},
               {vector({NAN, NAN, INFINITY, -5})}, over({1}))
              .rough(),
      },
      {
          Refused({zeros({2, 3})}, "axis 2 is not there: with 2 dimensions, axes go from -2 to 1",
                  over({2})),
          Refused({zeros({2, 3})}, "names axis -1 twice", over({1, -1})),
          Refused({booleans(zeros({2}))}, "has no kernel for bool", over({})),
          Refused({zeros({0})}, "there is no greatest of no elements: axis 0 of [0]"),
          Refused({zeros({2, 0})}, "there is no greatest of no elements: axis 1 of [2, 0]",
                  over({1})),
      });
}
const ListedCases listed(cases);

}  // namespace

TEST_CASE("ReduceMax chooses the greatest, and NaN") { check(cases()); }

TEST_CASE("equal greatest elements share the gradient") {
  Graph graph;
  const Output x = placeholder(graph, DType::f64, Shape{2, 3});
  const Output dx = gradients({reduce_max(x, {.axes = {1}})}, {x})[0];
  CHECK(!difference(evaluate(dx, {{x, matrix({{1, 3, 3}, {2, 0, 1}})}}),
                    matrix({{0, 0.5, 0.5}, {1, 0, 0}})));
  // NaN is the greatest, and no other element gets a gradient.
  CHECK(!difference(evaluate(dx, {{x, matrix({{1, NAN, 3}, {NAN, INFINITY, NAN}})}}),
                    matrix({{0, 1, 0}, {0.5, 0, 0.5}})));
}

}  // namespace troupe
