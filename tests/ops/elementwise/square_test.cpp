// Square.
#include <doctest/doctest.h>

#include "tests/support/op_cases.hpp"

namespace troupe {
namespace {

OpCases cases() {
  return unary_cases("Square", booleans(zeros({2})),
                     {
                         {.name = "a matrix",
                          .inputs = {matrix({{1, -2}, {0.5, 4}})},
                          .expected = {matrix({{1, 4}, {0.25, 16}})}},
                         {.name = "size one", .inputs = {vector({3})}, .expected = {vector({9})}},
                         {.name = "too large for f32",
                          .inputs = {vector({1e30})},
                          .expected = {vector({1e60})},
                          .smooth = false},
                     });
}
const ListedCases listed(cases);

}  // namespace

TEST_CASE("Square multiplies by itself") { check(cases()); }

}  // namespace troupe
