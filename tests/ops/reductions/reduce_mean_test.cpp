// ReduceMean.
#include <doctest/doctest.h>

#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

OpCases cases() {
  return table_of(
      "ReduceMean",
      {
          Case("everything", {matrix({{1, 2, 3}, {4, 5, 6}})}, {scalar(3.5)}),
          Case("rows", {matrix({{1, 2, 3}, {4, 5, 6}})}, {vector({2, 5})}, over({1})),
          Case("columns", {matrix({{1, 2, 3}, {4, 5, 6}})}, {vector({2.5, 3.5, 4.5})}, over({0})),
          Case("keeping dimensions", {matrix({{1, 2, 3}, {4, 5, 6}})}, {matrix({{2}, {5}})},
               over({-1}, true)),
          Case("first and last", {values({2, 3, 2}, {1, 5, 2, 6, 3, 4, 9, 0, 7, 8, 11, 10})},
               {vector({3.75, 5.75, 7})}, over({0, 2})),
          Case("size one", {vector({1.5})}, {scalar(1.5)}, over({0})),
          Case("nothing", {zeros({0})}, {scalar(NAN)}),
          Case("no rows", {zeros({0, 2})}, {zeros({0})}, over({1})),
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

TEST_CASE("ReduceMean divides the sum by the number of elements") { check(cases()); }

}  // namespace troupe
