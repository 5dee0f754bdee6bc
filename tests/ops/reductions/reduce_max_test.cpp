// ReduceMax.
#include <doctest/doctest.h>

#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

OpCases cases() {
  return {.values =
              {
                  {.name = "everything",
                   .op = "ReduceMax",
                   .inputs = {matrix({{1, 2, 3}, {4, 6, 5}})},
                   .expected = {scalar(6)}},
                  {.name = "rows",
                   .op = "ReduceMax",
                   .inputs = {matrix({{1, 3, 2}, {4, 5, 6}})},
                   .attrs = {{"axes", std::vector<int64_t>{1}}, {"keep_dims", false}},
                   .expected = {vector({3, 6})}},
                  {.name = "columns",
                   .op = "ReduceMax",
                   .inputs = {matrix({{1, 5, 3}, {4, 2, 6}})},
                   .attrs = {{"axes", std::vector<int64_t>{0}}, {"keep_dims", false}},
                   .expected = {vector({4, 5, 6})}},
                  {.name = "keeping dimensions",
                   .op = "ReduceMax",
                   .inputs = {matrix({{1, 3, 2}, {4, 5, 6}})},
                   .attrs = {{"axes", std::vector<int64_t>{-1}}, {"keep_dims", true}},
                   .expected = {matrix({{3}, {6}})}},
                  {.name = "first and last",
                   .op = "ReduceMax",
                   .inputs = {values({2, 3, 2}, {1, 5, 2, 6, 3, 4, 9, 0, 7, 8, 11, 10})},
                   .attrs = {{"axes", std::vector<int64_t>{0, 2}}, {"keep_dims", false}},
                   .expected = {vector({9, 8, 11})}},
                  {.name = "negative numbers",
                   .op = "ReduceMax",
                   .inputs = {vector({-3, -1.5, -2})},
                   .expected = {scalar(-1.5)}},
                  {.name = "size one",
                   .op = "ReduceMax",
                   .inputs = {vector({1.5})},
                   .attrs = {{"axes", std::vector<int64_t>{0}}, {"keep_dims", false}},
                   .expected = {scalar(1.5)}},
                  {.name = "a long row",
                   .op = "ReduceMax",
                   .inputs = {iota({1000}, -500)},
                   .expected = {scalar(499)},
                   .smooth = false},
                  {.name = "no rows",
                   .op = "ReduceMax",
                   .inputs = {zeros({0, 2})},
                   .attrs = {{"axes", std::vector<int64_t>{1}}, {"keep_dims", false}},
                   .expected = {zeros({0})}},
                  {.name = "NaN among others",
                   .op = "ReduceMax",
                   .inputs = {matrix({{1, NAN}, {NAN, 1}, {INFINITY, 2}, {-INFINITY, -5}})},
                   .attrs = {{"axes", std::vector<int64_t>{1}}, {"keep_dims", false}},
                   .expected = {vector({NAN, NAN, INFINITY, -5})},
                   .smooth = false},
              },
          .errors = {
              {.op = "ReduceMax",
               .inputs = {zeros({2, 3})},
               .attrs = {{"axes", std::vector<int64_t>{2}}, {"keep_dims", false}},
               .message = "axis 2 is not there: with 2 dimensions, axes go from -2 to 1"},
              {.op = "ReduceMax",
               .inputs = {zeros({2, 3})},
               .attrs = {{"axes", std::vector<int64_t>{1, -1}}, {"keep_dims", false}},
               .message = "names axis -1 twice"},
              {.op = "ReduceMax",
               .inputs = {booleans(zeros({2}))},
               .attrs = {{"axes", std::vector<int64_t>{}}, {"keep_dims", false}},
               .message = "has no kernel for bool"},
              {.op = "ReduceMax",
               .inputs = {zeros({0})},
               .message = "there is no greatest of no elements: axis 0 of [0]"},
              {.op = "ReduceMax",
               .inputs = {zeros({2, 0})},
               .attrs = {{"axes", std::vector<int64_t>{1}}, {"keep_dims", false}},
               .message = "there is no greatest of no elements: axis 1 of [2, 0]"},
          }};
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
