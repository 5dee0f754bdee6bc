// ReduceProd.
#include <doctest/doctest.h>

#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

Attrs over(std::vector<int64_t> axes, bool keep_dims = false) {
  return {{"axes", std::move(axes)}, {"keep_dims", keep_dims}};
}

OpCases cases() {
  const Tensor box = values({2, 3, 2}, {1, 5, 2, 6, 3, 4, 9, 0, 7, 8, 11, 10});
  return {.values =
              {
                  {.name = "everything",
                   .op = "ReduceProd",
                   .inputs = {matrix({{1, 2, 3}, {4, 5, -6}})},
                   .expected = {scalar(-720)}},
                  {.name = "rows",
                   .op = "ReduceProd",
                   .inputs = {matrix({{1, 3, 2}, {6, 5, 0.5}})},
                   .attrs = over({1}),
                   .expected = {vector({6, 15})}},
                  {.name = "columns",
                   .op = "ReduceProd",
                   .inputs = {matrix({{1, 5, 3}, {4, 2, 6}})},
                   .attrs = over({0}),
                   .expected = {vector({4, 10, 18})}},
                  {.name = "keeping dimensions",
                   .op = "ReduceProd",
                   .inputs = {matrix({{1, 3, 2}, {6, 5, 4}})},
                   .attrs = over({-1}, true),
                   .expected = {matrix({{6}, {120}})}},
                  {.name = "first and last, with a zero",
                   .op = "ReduceProd",
                   .inputs = {box},
                   .attrs = over({0, 2}),
                   .expected = {vector({0, 672, 1320})}},
                  {.name = "last and first, kept",
                   .op = "ReduceProd",
                   .inputs = {box},
                   .attrs = over({-1, 0}, true),
                   .expected = {values({1, 3, 1}, {0, 672, 1320})}},
                  {.name = "the one between",
                   .op = "ReduceProd",
                   .inputs = {box},
                   .attrs = over({1}),
                   .expected = {matrix({{6, 120}, {693, 0}})}},
                  {.name = "one zero, two and three",
                   .op = "ReduceProd",
                   .inputs = {matrix({{2, 0, 3}, {0, 0, 5}, {0, 0, 0}})},
                   .attrs = over({1}),
                   .expected = {vector({0, 0, 0})}},
                  {.name = "zeros everywhere",
                   .op = "ReduceProd",
                   .inputs = {matrix({{2, 0}, {0, 3}})},
                   .expected = {scalar(0)}},
                  {.name = "size one",
                   .op = "ReduceProd",
                   .inputs = {vector({1.5})},
                   .attrs = over({0}),
                   .expected = {scalar(1.5)}},
                  {.name = "a scalar",
                   .op = "ReduceProd",
                   .inputs = {scalar(1.5)},
                   .expected = {scalar(1.5)}},
                  {.name = "nothing to multiply",
                   .op = "ReduceProd",
                   .inputs = {zeros({2, 0})},
                   .attrs = over({1}),
                   .expected = {vector({1, 1})}},
                  {.name = "no rows",
                   .op = "ReduceProd",
                   .inputs = {zeros({0, 2})},
                   .attrs = over({1}),
                   .expected = {zeros({0})}},
                  {.name = "too large",
                   .op = "ReduceProd",
                   .inputs = {matrix({{1e200, 1e200}, {INFINITY, -2}, {INFINITY, 0}, {NAN, 0}})},
                   .attrs = over({1}),
                   .expected = {vector({INFINITY, -INFINITY, NAN, NAN})},
                   .smooth = false},
                  {.name = "i32 wraps around",
                   .op = "ReduceProd",
                   .inputs = {i32(vector({65536, 32768, 3}))},
                   .expected = {i32(scalar(-2147483648.0))},
                   .as_written = true},
              },
          .errors = {
              {.op = "ReduceProd",
               .inputs = {zeros({2, 3})},
               .attrs = over({2}),
               .message = "axis 2 is not there: with 2 dimensions, axes go from -2 to 1"},
              {.op = "ReduceProd",
               .inputs = {zeros({2, 3})},
               .attrs = over({1, -1}),
               .message = "names axis -1 twice"},
              {.op = "ReduceProd",
               .inputs = {booleans(zeros({2}))},
               .attrs = over({}),
               .message = "has no kernel for bool"},
          }};
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
