// TriangularSolve.
#include <doctest/doctest.h>

#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

Attrs attrs(bool lower, bool transpose) { return {{"lower", lower}, {"transpose", transpose}}; }

OpCases cases() {
  const Tensor a = matrix({{2, 7, -3}, {1, 4, 5}, {-1, 3, -5}});
  const Tensor b = matrix({{2, 1}, {3, -4}, {5, 0.5}});
  return table_of(
      "TriangularSolve",
      {Case("lower", {a, b}, {matrix({{1, 0.5}, {0.5, -1.125}, {-0.9, -0.875}})}),
       Case("upper", {a, b}, {matrix({{-7.5, 3.4125}, {2, -0.875}, {-1, -0.1}})},
            attrs(false, false)),
       Case("lower, transposed", {a, b},
            {matrix({{-0.25, 0.9125000000000001}, {1.5, -0.925}, {-1, -0.1}})}, attrs(true, true)),
       Case("upper, transposed", {a, b}, {matrix({{1, 0.5}, {-1, -1.875}, {-2.6, -2.275}})},
            attrs(false, true)),
       Case("a batch",
            {values({2, 3, 3}, {2, 7, -3, 1, 4, 5, -1, 3, -5, 3, 1, -1, 7, 5, 3, -3, 5, -4}),
             values({2, 3, 2}, {2, 1, 3, -4, 5, 0.5, 3, 2, 4, -3, 6, 1.5})},
            {values({2, 3, 2},
                    {1, 0.5, 0.5, -1.125, -0.9, -0.875, 1, 0.6666666666666666, -0.6000000000000001,
                     -1.5333333333333332, -3, -2.7916666666666665})}),
       Case("size one", {matrix({{4}}), matrix({{2}})}, {matrix({{0.5}})}),
       Case("the other triangle is not looked at", {matrix({{2, NAN}, {1, 1}}), matrix({{4}, {5}})},
            {matrix({{2}, {3}})})
           .rough(),
       Case("NaN spreads", {matrix({{2, 0}, {1, NAN}}), matrix({{4}, {5}})}, {matrix({{2}, {NAN}})})
           .rough(),
       Case("no right sides", {a, zeros({3, 0})}, {zeros({3, 0})}),
       Case("empty matrices", {zeros({2, 0, 0}), zeros({2, 0, 3})}, {zeros({2, 0, 3})})},
      {Refused({zeros({2, 3}), zeros({2, 1})}, "wants square matrices [..., n, n], got [2, 3]"),
       Refused({a, zeros({2, 1})}, "numbers of rows differ: [3, 3] and [2, 1]"),
       Refused({zeros({2, 3, 3}), zeros({3, 3, 1})},
               "leading dimensions differ: [2, 3, 3] and [3, 3, 1]"),
       Refused({zeros({2, 3, 3}), zeros({2, 3})}, "and a vector [..., n] a matrix [..., n, 1]"),
       Refused({a, vector({1, 2, 3})}, "wants matrices [..., rows, columns], got ["),
       Refused({values({2, 2, 2}, {1, 0, 0, 1, 1, 0, 0, 0}), zeros({2, 2, 1})},
               "matrix 1 of 2, counted from 0, is singular: element 1 of its "
               "diagonal is 0")
           .in_step()});
}
const ListedCases listed(cases);

}  // namespace

TEST_CASE("TriangularSolve solves by substitution") { check(cases()); }

}  // namespace troupe
