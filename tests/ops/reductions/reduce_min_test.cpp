// ReduceMin and ArgMin.
#include <doctest/doctest.h>

#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

Attrs over(std::vector<int64_t> axes, bool keep_dims = false) {
  return {{"axes", std::move(axes)}, {"keep_dims", keep_dims}};
}

OpCases cases() {
  return {.values =
              {
                  {.name = "everything",
                   .op = "ReduceMin",
                   .inputs = {matrix({{4, 2, 3}, {1, 6, 5}})},
                   .expected = {scalar(1)}},
                  {.name = "rows",
                   .op = "ReduceMin",
                   .inputs = {matrix({{1, 3, 2}, {6, 5, 4}})},
                   .attrs = over({1}),
                   .expected = {vector({1, 4})}},
                  {.name = "columns",
                   .op = "ReduceMin",
                   .inputs = {matrix({{1, 5, 3}, {4, 2, 6}})},
                   .attrs = over({0}),
                   .expected = {vector({1, 2, 3})}},
                  {.name = "keeping dimensions",
                   .op = "ReduceMin",
                   .inputs = {matrix({{1, 3, 2}, {6, 5, 4}})},
                   .attrs = over({-1}, true),
                   .expected = {matrix({{1}, {4}})}},
                  {.name = "first and last",
                   .op = "ReduceMin",
                   .inputs = {values({2, 3, 2}, {1, 5, 2, 6, 3, 4, 9, 0, 7, 8, 11, 10})},
                   .attrs = over({0, 2}),
                   .expected = {vector({0, 2, 3})}},
                  {.name = "negative numbers",
                   .op = "ReduceMin",
                   .inputs = {vector({-1, -3.5, -2})},
                   .expected = {scalar(-3.5)}},
                  {.name = "size one",
                   .op = "ReduceMin",
                   .inputs = {vector({1.5})},
                   .attrs = over({0}),
                   .expected = {scalar(1.5)}},
                  {.name = "a long row",
                   .op = "ReduceMin",
                   .inputs = {iota({1000}, 500, -1)},
                   .expected = {scalar(-499)},
                   .smooth = false},
                  {.name = "no rows",
                   .op = "ReduceMin",
                   .inputs = {zeros({0, 2})},
                   .attrs = over({1}),
                   .expected = {zeros({0})}},
                  {.name = "NaN among others",
                   .op = "ReduceMin",
                   .inputs = {matrix({{1, NAN}, {NAN, 1}, {INFINITY, 2}, {-INFINITY, -5}})},
                   .attrs = over({1}),
                   .expected = {vector({NAN, NAN, 2, -INFINITY})},
                   .smooth = false},
              },
          .errors = {
              {.op = "ReduceMin",
               .inputs = {zeros({2, 3})},
               .attrs = over({2}),
               .message = "axis 2 is not there: with 2 dimensions, axes go from -2 to 1"},
              {.op = "ReduceMin",
               .inputs = {booleans(zeros({2}))},
               .attrs = over({}),
               .message = "has no kernel for bool"},
              {.op = "ReduceMin",
               .inputs = {zeros({2, 0})},
               .attrs = over({1}),
               .message = "there is no least of no elements: axis 1 of [2, 0]"},
          }};
}
const ListedCases listed(cases);

OpCase index(std::string name, Tensor x, int64_t axis, Tensor expected) {
  return {.name = std::move(name),
          .op = "ArgMin",
          .inputs = {x},
          .attrs = {{"axis", axis}},
          .expected = {i64(expected)},
          .as_written = true};
}

OpCases index_cases() {
  const Tensor x = matrix({{5, 1, 2}, {7, 6, 0}});
  OpCases all = {
      .values = {index("columns", x, -1, vector({1, 2})), index("rows", x, 0, vector({0, 0, 1})),
                 index("the first of equals", vector({3, 2, 2}), 0, scalar(1)),
                 index("size one", vector({-4}), 0, scalar(0)),
                 index("between dimensions", iota({2, 3, 2}), 1, zeros({2, 2})),
                 index("negative numbers and infinities", vector({INFINITY, -5, 6}), 0, scalar(1)),
                 index("NaN is the least, the first one", vector({1, NAN, -INFINITY, NAN}), 0,
                       scalar(1)),
                 index("nothing to choose for", zeros({0, 2}), 1, zeros({0}))},
      .errors = {
          {.op = "ArgMin",
           .inputs = {zeros({2, 0})},
           .message = "has nothing to choose from along axis 1 of [2, 0]"},
          {.op = "ArgMin",
           .inputs = {zeros({2})},
           .attrs = {{"axis", int64_t{1}}},
           .message = "axis 1 is not there: with 1 dimensions, axes go from -1 to 0"},
          {.op = "ArgMin", .inputs = {booleans(zeros({2}))}, .message = "has no kernel for bool"}}};
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
