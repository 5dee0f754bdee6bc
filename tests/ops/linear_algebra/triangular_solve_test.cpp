// TriangularSolve.
#include <doctest/doctest.h>

#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

Attrs attrs(bool lower, bool transpose) { return {{"lower", lower}, {"transpose", transpose}}; }

OpCases cases() {
  const Tensor a = matrix({{2, 7, -3}, {1, 4, 5}, {-1, 3, -5}});
  const Tensor b = matrix({{2, 1}, {3, -4}, {5, 0.5}});
  return {
      .values = {{.name = "lower",
                  .op = "TriangularSolve",
                  .inputs = {a, b},
                  .expected = {matrix({{1, 0.5}, {0.5, -1.125}, {-0.9, -0.875}})}},
                 {.name = "upper",
                  .op = "TriangularSolve",
                  .inputs = {a, b},
                  .attrs = attrs(false, false),
                  .expected = {matrix({{-7.5, 3.4125}, {2, -0.875}, {-1, -0.1}})}},
                 {.name = "lower, transposed",
                  .op = "TriangularSolve",
                  .inputs = {a, b},
                  .attrs = attrs(true, true),
                  .expected = {matrix({{-0.25, 0.9125000000000001}, {1.5, -0.925}, {-1, -0.1}})}},
                 {.name = "upper, transposed",
                  .op = "TriangularSolve",
                  .inputs = {a, b},
                  .attrs = attrs(false, true),
                  .expected = {matrix({{1, 0.5}, {-1, -1.875}, {-2.6, -2.275}})}},
                 {.name = "a batch",
                  .op = "TriangularSolve",
                  .inputs = {values({2, 3, 3},
                                    {2, 7, -3, 1, 4, 5, -1, 3, -5, 3, 1, -1, 7, 5, 3, -3, 5, -4}),
                             values({2, 3, 2}, {2, 1, 3, -4, 5, 0.5, 3, 2, 4, -3, 6, 1.5})},
                  .expected = {values({2, 3, 2}, {1, 0.5, 0.5, -1.125, -0.9, -0.875, 1,
                                                  0.6666666666666666, -0.6000000000000001,
                                                  -1.5333333333333332, -3, -2.7916666666666665})}},
                 {.name = "size one",
                  .op = "TriangularSolve",
                  .inputs = {matrix({{4}}), matrix({{2}})},
                  .expected = {matrix({{0.5}})}},
                 {.name = "the other triangle is not looked at",
                  .op = "TriangularSolve",
                  .inputs = {matrix({{2, NAN}, {1, 1}}), matrix({{4}, {5}})},
                  .expected = {matrix({{2}, {3}})},
                  .smooth = false},
                 {.name = "NaN spreads",
                  .op = "TriangularSolve",
                  .inputs = {matrix({{2, 0}, {1, NAN}}), matrix({{4}, {5}})},
                  .expected = {matrix({{2}, {NAN}})},
                  .smooth = false},
                 {.name = "no right sides",
                  .op = "TriangularSolve",
                  .inputs = {a, zeros({3, 0})},
                  .expected = {zeros({3, 0})}},
                 {.name = "empty matrices",
                  .op = "TriangularSolve",
                  .inputs = {zeros({2, 0, 0}), zeros({2, 0, 3})},
                  .expected = {zeros({2, 0, 3})}}},
      .errors = {{.op = "TriangularSolve",
                  .inputs = {zeros({2, 3}), zeros({2, 1})},
                  .message = "wants square matrices [..., n, n], got [2, 3]"},
                 {.op = "TriangularSolve",
                  .inputs = {a, zeros({2, 1})},
                  .message = "numbers of rows differ: [3, 3] and [2, 1]"},
                 {.op = "TriangularSolve",
                  .inputs = {zeros({2, 3, 3}), zeros({3, 3, 1})},
                  .message = "leading dimensions differ: [2, 3, 3] and [3, 3, 1]"},
                 {.op = "TriangularSolve",
                  .inputs = {zeros({2, 3, 3}), zeros({2, 3})},
                  .message = "and a vector [..., n] a matrix [..., n, 1]"},
                 {.op = "TriangularSolve",
                  .inputs = {a, vector({1, 2, 3})},
                  .message = "wants matrices [..., rows, columns], got ["},
                 {.op = "TriangularSolve",
                  .inputs = {values({2, 2, 2}, {1, 0, 0, 1, 1, 0, 0, 0}), zeros({2, 2, 1})},
                  .message = "matrix 1 of 2, counted from 0, is singular: element 1 of its "
                             "diagonal is 0",
                  .when_run = true}}};
}
const ListedCases listed(cases);

}  // namespace

TEST_CASE("TriangularSolve solves by substitution") { check(cases()); }

}  // namespace troupe
