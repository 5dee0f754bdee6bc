// ReduceMin and ArgMin.
#include <doctest/doctest.h>

#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

OpCases cases() {
  return table_of(
      "ReduceMin",
      {
          Case("everything", {matrix({{4, 2, 3}, {1, 6, 5}})}, {scalar(1)}),
          Case("rows", {matrix({{1, 3, 2}, {6, 5, 4}})}, {vector({1, 4})}, over({1})),
          Case("columns", {matrix({{1, 5, 3}, {4, 2, 6}})}, {vector({1, 2, 3})}, over({0})),
          Case("keeping dimensions", {matrix({{1, 3, 2}, {6, 5, 4}})}, {matrix({{1}, {4}})},
               over({-1}, true)),
          Case("first and last", {values({2, 3, 2}, {1, 5, 2, 6, 3, 4, 9, 0, 7, 8, 11, 10})},
               {vector({0, 2, 3})}, over({0, 2})),
          Case("negative numbers", {vector({-1, -3.5, -2})}, {scalar(-3.5)}),
          Case("size one", {vector({1.5})}, {scalar(1.5)}, over({0})),
          Case("a long row", {iota({1000}, 500, -1)}, {scalar(-499)}).rough(),
          Case("no rows", {zeros({0, 2})}, {zeros({0})}, over({1})),
          Case("NaN among others", {matrix({{1, NAN}, {NAN, 1}, {INFINITY, 2}, {-INFINITY, -5}})},
               {vector({NAN, NAN, 2, -INFINITY})}, over({1}))
              .rough(),
      },
      {
          Refused({zeros({2, 3})}, "axis 2 is not there: with 2 dimensions, axes go from -2 to 1",
                  over({2})),
          Refused({booleans(zeros({2}))}, "has no kernel for bool", over({})),
          Refused({zeros({2, 0})}, "there is no least of no elements: axis 1 of [2, 0]", over({1})),
      });
}
const ListedCases listed(cases);

OpCase index(std::string name, Tensor x, int64_t axis, Tensor expected) {
  return Case("ArgMin", std::move(name), {x}, {i64(expected)}, {{"axis", axis}}).as_typed();
}

OpCases index_cases() {
  const Tensor x = matrix({{5, 1, 2}, {7, 6, 0}});
  OpCases all = table_of(
      "ArgMin",
      {index("columns", x, -1, vector({1, 2})), index("rows", x, 0, vector({0, 0, 1})),
       index("the first of equals", vector({3, 2, 2}), 0, scalar(1)),
       index("size one", vector({-4}), 0, scalar(0)),
       index("between dimensions", iota({2, 3, 2}), 1, zeros({2, 2})),
       index("negative numbers and infinities", vector({INFINITY, -5, 6}), 0, scalar(1)),
       index("NaN is the least, the first one", vector({1, NAN, -INFINITY, NAN}), 0, scalar(1)),
       index("nothing to choose for", zeros({0, 2}), 1, zeros({0}))},
      {Refused({zeros({2, 0})}, "has nothing to choose from along axis 1 of [2, 0]"),
       Refused({zeros({2})}, "axis 1 is not there: with 1 dimensions, axes go from -1 to 0",
               {{"axis", int64_t{1}}}),
       Refused({booleans(zeros({2}))}, "has no kernel for bool")});
  for (DType dtype : {DType::f32, DType::i32, DType::i64, DType::u8})
    all.values.push_back(index(to_string(dtype), converted(x, dtype), -1, vector({1, 2})));
  return all;
}
const ListedCases listed_index(index_cases);

}  // namespace

TEST_CASE("ReduceMin chooses the least, and NaN") { check(cases()); }

TEST_CASE("equal least elements share the gradient") {
  Graph graph;
  const Output x = placeholder(graph, DType::f64, Shape{2, 3});
  const Output dx = gradients({reduce_min(x, {.axes = {1}})}, {x})[0];
  CHECK(!difference(evaluate(dx, {{x, matrix({{3, 1, 1}, {0, 2, 1}})}}),
                    matrix({{0, 0.5, 0.5}, {1, 0, 0}})));
  CHECK(!difference(evaluate(dx, {{x, matrix({{1, NAN, 3}, {NAN, -INFINITY, NAN}})}}),
                    matrix({{0, 1, 0}, {0.5, 0, 0.5}})));
}

TEST_CASE("ArgMin finds the first of the least") { check(index_cases()); }

}  // namespace troupe
