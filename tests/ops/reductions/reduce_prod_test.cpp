// ReduceProd.
#include <doctest/doctest.h>

#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

OpCases cases() {
  const Tensor box = values({2, 3, 2}, {1, 5, 2, 6, 3, 4, 9, 0, 7, 8, 11, 10});
  return table_of(
      "ReduceProd",
      {
          Case("everything", {matrix({{1, 2, 3}, {4, 5, -6}})}, {scalar(-720)}),
          Case("rows", {matrix({{1, 3, 2}, {6, 5, 0.5}})}, {vector({6, 15})}, over({1})),
          Case("columns", {matrix({{1, 5, 3}, {4, 2, 6}})}, {vector({4, 10, 18})}, over({0})),
          Case("keeping dimensions", {matrix({{1, 3, 2}, {6, 5, 4}})}, {matrix({{6}, {120}})},
               over({-1}, true)),
          Case("first and last, with a zero", {box}, {vector({0, 672, 1320})}, over({0, 2})),
          Case("last and first, kept", {box}, {values({1, 3, 1}, {0, 672, 1320})},
               over({-1, 0}, true)),
          Case("the one between", {box}, {matrix({{6, 120}, {693, 0}})}, over({1})),
          Case("one zero, two and three", {matrix({{2, 0, 3}, {0, 0, 5}, {0, 0, 0}})},
               {vector({0, 0, 0})}, over({1})),
          Case("zeros everywhere", {matrix({{2, 0}, {0, 3}})}, {scalar(0)}),
          Case("size one", {vector({1.5})}, {scalar(1.5)}, over({0})),
          Case("a scalar", {scalar(1.5)}, {scalar(1.5)}),
          Case("nothing to multiply", {zeros({2, 0})}, {vector({1, 1})}, over({1})),
          Case("no rows", {zeros({0, 2})}, {zeros({0})}, over({1})),
          Case("too large", {matrix({{1e200, 1e200}, {INFINITY, -2}, {INFINITY, 0}, {NAN, 0}})},
               {vector({INFINITY, -INFINITY, NAN, NAN})}, over({1}))
              .rough(),
          Case("i32 wraps around", {i32(vector({65536, 32768, 3}))}, {i32(scalar(-2147483648.0))})
              .as_typed(),
      },
      {
          Refused({zeros({2, 3})}, "axis 2 is not there: with 2 dimensions, axes go from -2 to 1",
                  over({2})),
          Refused({zeros({2, 3})}, "names axis -1 twice", over({1, -1})),
          Refused({booleans(zeros({2}))}, "has no kernel for bool", over({})),
      });
}
const ListedCases listed(cases);

}  // namespace

TEST_CASE("ReduceProd multiplies, and its gradient minds zeros") { check(cases()); }

TEST_CASE("a zero leaves the product of the others as its gradient") {
  Graph graph;
  const Output x = placeholder(graph, DType::f64, Shape{2, 2});
  const Output dx = gradients({reduce_prod(x)}, {x})[0];
  CHECK(!difference(evaluate(dx, {{x, matrix({{2, 0}, {3, 5}})}}), matrix({{0, 30}, {0, 0}})));
  CHECK(!difference(evaluate(dx, {{x, matrix({{2, 0}, {0, 5}})}}), zeros({2, 2})));
}

}  // namespace troupe
